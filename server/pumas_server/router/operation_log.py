"""One JSON log line for each operation, written when it is over (also when its caller left)."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import dataclass, field

from pumas_server.contract.errors import ContractError
from pumas_server.router.sessions import Session

_log = logging.getLogger("pumas.operations")


@dataclass(slots=True)
class OperationRecord:
    """What is known of an operation, filled in as it goes."""

    route: str
    session: Session
    principal: str
    request_id: str | None = None
    model: str | None = None
    profile: str | None = None
    capability: str | None = None
    code: str = "ok"
    status: int | None = None
    request_bytes: int = 0
    response_bytes: int = 0
    started: float = field(default_factory=time.perf_counter)

    def failed(self, error: ContractError) -> None:
        """Note how it failed."""
        self.code = error.code

    def write(self) -> None:
        """Write the line. Values are JSON: nothing of a caller's reaches the log unescaped."""
        succeeded = self.code == "ok"
        _log.info(
            json.dumps(
                {
                    "operation": self.route,
                    "request_id": self.request_id,
                    "model": self.model,
                    "profile": self.profile,
                    "capability": self.capability,
                    "principal": self.principal,
                    "status": self.status,
                    "code": self.code,
                    "outcome": "succeeded" if succeeded else self.session.outcome,
                    "admitted": self.session.admitted,
                    "request_bytes": self.request_bytes,
                    "response_bytes": self.response_bytes,
                    "ms": round((time.perf_counter() - self.started) * 1000, 1),
                }
            )
        )
