"""Control calls to the engine of this pod: is it alive, what is it, how busy, does it work."""

from __future__ import annotations

import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import assert_never

from pumas_crds.facts import Limit
from pumas_crds.vocabulary import EngineMode
from pumas_server.contract.redaction import redact_foreign
from pumas_server.worker.exchange import Answer, NoAnswer, exchange
from pumas_server.worker.runtime import member

HEALTH_SECONDS = 5.0
FACTS_SECONDS = 30.0
BUSY_SECONDS = 1.0


class WarmUpRefused(Exception):
    """The engine answered the warm-up call with an error; the message is its redacted reason."""


class EngineClient:
    """The engine behind one address."""

    def __init__(self, host: str, port: int, key: str) -> None:
        self._host = host
        self._port = port
        self._headers = {"Authorization": f"Bearer {key}", "Accept": "application/json"}

    async def health(self) -> int | None:
        """The status of `/health`: 200 serves, 503 loads; None when nothing answers."""
        try:
            return (await self._ask("GET", "/health", seconds=HEALTH_SECONDS)).status
        except NoAnswer:
            return None

    async def fact(self, path: str) -> object:
        """The JSON of one of the engine's own routes; None when it does not serve that route."""
        answer = await self._ask("GET", path, seconds=FACTS_SECONDS)
        if answer.status != 200:
            return None
        try:
            value: object = json.loads(answer.body)
        except ValueError as error:
            raise NoAnswer(f"the answer to GET {path} is no JSON") from error
        return value

    async def busy(self) -> int | None:
        """Slots at work; None when the engine does not say within a second."""
        try:
            answer = await self._ask("GET", "/slots", seconds=BUSY_SECONDS)
            slots: object = json.loads(answer.body)
        except (NoAnswer, ValueError):
            return None
        if answer.status != 200 or not isinstance(slots, list):
            return None
        return sum(member(slot, "is_processing") is True for slot in slots)

    async def warm_up(self, mode: EngineMode, limits: Sequence[Limit] = ()) -> None:
        """Make one small call of the kind the engine is here for, within its limits.

        Without a deadline: a large model on a slow machine may take minutes, and slow is not dead.
        """
        path, question = _warm_up_call(mode, limits)
        answer = await self._ask("POST", path, question, seconds=None)
        if answer.status != 200:
            raise WarmUpRefused(
                f"The engine answered the first call with status {answer.status}: {_reason(answer)}"
            )

    async def decides_on_media(self) -> bool:
        """Whether decisions take media: a projector alone does not say so of every family."""
        path, question = _warm_up_call(EngineMode.DECIDE)
        answer = await self._ask("POST", path, question | {"images": [DOT]}, seconds=None)
        return answer.status == HTTPStatus.OK

    async def _ask(
        self,
        method: str,
        path: str,
        question: dict[str, object] | None = None,
        *,
        seconds: float | None,
    ) -> Answer:
        body = b"" if question is None else json.dumps(question).encode()
        headers = self._headers if question is None else {**self._headers, **_JSON}
        return await exchange(
            self._host, self._port, method, path, headers=headers, body=body, seconds=seconds
        )


#: The least PNG: one pixel.
DOT = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNoAAAAggCBd81ytg"
    "AAAABJRU5ErkJggg=="
)

_JSON = {"Content-Type": "application/json"}


def _warm_up_call(mode: EngineMode, limits: Sequence[Limit] = ()) -> tuple[str, dict[str, object]]:
    match mode:
        case EngineMode.GENERATE:
            return "/v1/completions", {"prompt": "a", "max_tokens": 1}
        case EngineMode.EMBED:
            return "/v1/embeddings", {"input": "a"}
        case EngineMode.RERANK:
            return "/v1/rerank", {"query": "a", "documents": ["a"]}
        case EngineMode.DECIDE:
            question = {"type": "choice", "instructions": "a", "criteria": {"a": None, "b": None}}
            return "/v1/systemone", {"state": "a", "questions": {"a": question}}
        case EngineMode.GENERATE_IMAGE:
            least = {limit.option: limit.minimum for limit in limits}
            sides = (least.get("width"), least.get("height"))
            size = {"size": "{}x{}".format(*sides)} if None not in sides else {}
            return "/v1/images/generations", {"prompt": "a", "n": 1, **size}
        case _:
            assert_never(mode)


def _reason(answer: Answer) -> str:
    try:
        message = member(json.loads(answer.body), "error", "message")
    except ValueError:
        message = None
    return redact_foreign(message) if isinstance(message, str) else "it gave no reason"
