"""Who calls: one principal per request, known before the body is read and passed down.

The seam of access modes. Mode `none`, the only one so far, knows one anonymous principal that may
use every model; the caller's Authorization is neither read nor forwarded.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller as far as access is concerned."""

    name: str


ANONYMOUS = Principal("anonymous")


def principal_of(scope: MutableMapping[str, Any]) -> Principal:
    """The principal of a request, from its ASGI scope alone."""
    return ANONYMOUS
