"""One JSON log line for each operation, written when it is over (also when its caller left)."""

from __future__ import annotations

import logging
import time
from asyncio import CancelledError
from collections.abc import Callable
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii
from types import TracebackType
from typing import Self

from pumas_server.contract.errors import Code, ContractError
from pumas_server.router.sessions import Session
from pumas_server.telemetry import FIELDS, OPERATIONS

_log = logging.getLogger(OPERATIONS)

_SUCCESS = "ok"
_FAULT_OF_OURS = "internal_error"

#: A caller may name a model as long as a body may be; a line is for people.
_MODEL_CHARACTERS = 256


@dataclass(slots=True)
class OperationRecord:
    """What is known of an operation, filled in as it goes; leaving the block writes the line."""

    route: str
    session: Session
    principal: str
    request_id: str | None = None
    model: str | None = None
    profile: str | None = None
    capability: str | None = None
    code: str | None = None
    """None until it is known how it ended: nothing is a success by default."""
    status: int | None = None
    request_bytes: int = 0
    response_bytes: int = 0
    started: float = field(default_factory=time.perf_counter)
    seconds: float = 0.0
    """How long it took; known when it is over."""
    finished: Callable[[OperationRecord], None] = field(default=lambda record: None)
    """Told when it is over."""

    @property
    def outcome(self) -> str:
        """Whether it had an effect."""
        return "succeeded" if self.code == _SUCCESS else self.session.outcome

    def succeeded(self) -> None:
        """Note that all of the answer was handed over, unless it told of a failure."""
        self.code = self.code or _SUCCESS

    def failed(self, error: ContractError) -> None:
        """Note how it failed."""
        self.code = error.code
        self.request_id = self.request_id or error.request_id

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.code is None:
            # Cancelled from outside: the server gave up on what `shutdown` had ended.
            cancelled = kind is not None and issubclass(kind, CancelledError)
            self.code = Code.TRANSPORT_LOST if cancelled else _FAULT_OF_OURS
        self.seconds = time.perf_counter() - self.started
        self.finished(self)
        self._write()

    def _write(self) -> None:
        """Write the line. What is a caller's is escaped: nothing of it reaches the log as it is."""
        model = self.model and self.model[:_MODEL_CHARACTERS]
        members = (
            f'"operation": "{self.route}", "request_id": {_json(self.request_id)},'
            f' "model": {_json(model)}, "profile": {_json(self.profile)},'
            f' "capability": {_json(self.capability)}, "principal": {_json(self.principal)},'
            f' "status": {"null" if self.status is None else self.status},'
            f' "code": {_json(self.code)}, "outcome": "{self.outcome}",'
            f' "admitted": {"true" if self.session.admitted else "false"},'
            f' "request_bytes": {self.request_bytes}, "response_bytes": {self.response_bytes},'
            f' "ms": {self.seconds * 1000:.1f}'
        )
        _log.info("operation", extra={FIELDS: members})


def _json(text: str | None) -> str:
    return "null" if text is None else encode_basestring_ascii(text)
