"""Contract v1 of model operations: the wire grammar, pure.

Bytes become an `Operation` or a `ContractError`; results, records and errors become bytes. No
module here knows a provider, a socket or a Kubernetes object. `registry` is the front door.
"""
