"""A ServedModel made real on this machine: the same pod templates, run as processes."""
