"""Which operations a served model offers, and which of them a request is. Pure.

`declare(spec, facts)` gives the descriptors of discovery; `resolve(operation, descriptors)` chooses
one of them or says why none will do. Both read one table (`rows`).

Here and not in the pod (see the ADR on descriptors): a stock engine is a valid pod, and routers and
pods of different releases agree, because pods report facts and routers alone draw conclusions.
"""

from pumas_server.capabilities.declare import Facts, declare
from pumas_server.capabilities.resolve import resolve

__all__ = ["Facts", "declare", "resolve"]
