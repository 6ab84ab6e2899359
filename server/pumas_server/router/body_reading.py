"""What is read in a body: in a caller's, by the route that it came on, or in a provider's. Pure.

It is done on the event loop, or, where it takes long, in a process of its own (`long_bodies`):
what is asked and what comes out cross between processes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, TypeVar

from pumas_server.contract.errors import Code, ContractError
from pumas_server.contract.registry import parse_operation
from pumas_server.contract.request import Operation
from pumas_server.contract.results import Result, result_body
from pumas_server.provider.address import Address
from pumas_server.router.forwarded_routes import ROUTES

_log = logging.getLogger(__name__)

Got = TypeVar("Got")
Got_co = TypeVar("Got_co", covariant=True)


class Reading(Protocol[Got_co]):
    """A way to read a body."""

    def read(self, raw: bytes) -> Got_co:
        """What the body holds. Raises `ContractError`."""


@dataclass(frozen=True, slots=True)
class Typed:
    """As a model operation."""

    def read(self, raw: bytes) -> Operation:
        """See `Reading`."""
        return parse_operation(raw)


class Forwarded(NamedTuple):
    """As one that is forwarded: no more of it than that takes."""

    path: str
    content_type: str

    def read(self, raw: bytes) -> Address:
        """See `Reading`."""
        return ROUTES[self.path].read(raw, self.content_type)


@dataclass(frozen=True, slots=True)
class Projected:
    """As a provider's answer; what is made of it is the one that the caller gets."""

    request_id: str
    project: Callable[[bytes], Result]

    def read(self, raw: bytes) -> bytes:
        """See `Reading`."""
        return result_body(self.request_id, self.project(raw))


@dataclass(frozen=True, slots=True)
class Found(Generic[Got]):
    """What was read."""

    value: Got


@dataclass(frozen=True, slots=True)
class Refused:
    """A `ContractError` on its way between processes."""

    code: Code
    message: str
    request_id: str | None

    def as_error(self) -> ContractError:
        """The error itself."""
        return ContractError(self.code, self.message, request_id=self.request_id)


@dataclass(frozen=True, slots=True)
class Failed:
    """A fault of ours; the log says which."""

    kind: str


def read_anyhow(asked: Reading[Got], raw: bytes) -> Found[Got] | Refused | Failed:
    """What comes of reading. Raises nothing, so that one body is never another one's fault."""
    try:
        return Found(asked.read(raw))
    except ContractError as error:
        return Refused(error.code, error.message, error.request_id)
    except Exception as error:
        _log.exception("a long body could not be read")
        return Failed(type(error).__name__)
