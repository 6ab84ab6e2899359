"""A ServedModel made real in a cluster: desired state by pure functions, applied in one place."""
