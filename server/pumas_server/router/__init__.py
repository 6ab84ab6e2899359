"""The router: the only party that speaks the contract. Stateless; one process, one event loop."""
