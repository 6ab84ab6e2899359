"""What comes back from the API server: an object, a refusal, or nothing to rely on. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Protocol

Json = Mapping[str, object]

#: Content types of a body. What a merge patch does not name stays as it is.
PLAIN = "application/json"
MERGE_PATCH = "application/merge-patch+json"

CONFLICT, NOT_FOUND, _FORBIDDEN = 409, 404, 403


class AnswerRefused(Exception):
    """The API server answered, and it was no."""

    def __init__(self, status: int, reason: str = "") -> None:
        self.status = status
        self.reason = reason
        """Kubernetes' word for it, such as `AlreadyExists`; empty when it gave none."""
        told = f"the API server answers {status}"
        super().__init__(f"{told} ({reason})" if reason else told)

    @property
    def undecided(self) -> bool:
        """Whether a write may have been done all the same: the server lost track of it itself."""
        return self.status >= 500


class Unanswered(Exception):
    """No answer that can be read came: it is not known whether it was done. Says why."""


class ApiObjects(Protocol):
    """Whoever carries out single requests of the Kubernetes API."""

    async def send(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        content_type: str = PLAIN,
        query: Mapping[str, str] | None = None,
    ) -> Json:
        """The object that is answered. Raises `AnswerRefused` and `Unanswered`."""
        ...


def read_object(status: int, raw: bytes) -> Json:
    """The object of an answer. Raises `AnswerRefused` and `Unanswered`."""
    try:
        value: object = json.loads(raw)
    except (ValueError, RecursionError):
        value = None
    body = value if isinstance(value, dict) else None
    if not 200 <= status < 300:
        reason = (body or {}).get("reason")
        raise AnswerRefused(status, reason if isinstance(reason, str) else "")
    if body is None:
        raise Unanswered("what answers is not the Kubernetes API")
    return body


def explain(error: AnswerRefused | Unanswered, what: str) -> str:
    """A failure as a sentence for people; `what` as in `patch leases in its own namespace`."""
    if isinstance(error, Unanswered) or error.undecided:
        return f"It is not known whether the router could {what}: {error}."
    if error.status == _FORBIDDEN:
        return f"The API server forbids the router to {what}; its role needs that right."
    return f"The router could not {what}: {error}."
