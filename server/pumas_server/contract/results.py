"""What a success looks like on the wire: finite results and stream records (*Errors*, *SSE*).

A finite success holds `contract_version`, the caller's `request_id` and a tagged `result`; a stream
is `started`, `delta`…, then `completed` or `failed`. Nothing of the provider's envelope is here.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum

from pumas_server.contract.bounds import (
    CONTRACT_VERSION,
    FAILED_RECORD_RESERVE,
    MAX_RESPONSE_BYTES,
    MAX_STREAM_EVENT_BYTES,
)
from pumas_server.contract.errors import Code, ContractError, Outcome, error_member
from pumas_server.contract.words import Capability


class FinishReason(StrEnum):
    """Why a text ended; any other word of a provider's is incoherent."""

    STOP = "stop"
    LENGTH = "length"
    CONTENT_FILTER = "content_filter"


@dataclass(frozen=True, slots=True)
class TextResult:
    """A generated text. It may be empty."""

    text: str
    finish_reason: FinishReason

    def member(self) -> dict[str, object]:
        """The tagged `result`."""
        return {"kind": "text", "text": self.text, "finish_reason": self.finish_reason}


@dataclass(frozen=True, slots=True)
class EmbeddingsResult:
    """One vector for each input, in order."""

    vectors: list[list[float]]

    def member(self) -> dict[str, object]:
        """The tagged `result`."""
        return {"kind": "embeddings", "vectors": self.vectors}


@dataclass(frozen=True, slots=True)
class ImageResult:
    """One image, and the number that makes it again."""

    png_base64: str
    seed: int

    def member(self) -> dict[str, object]:
        """The tagged `result`."""
        return {"kind": "image", "png_base64": self.png_base64, "seed": self.seed}


@dataclass(frozen=True, slots=True)
class Relevance:
    """The score of one document; `index` is its position in the request."""

    index: int
    score: float


@dataclass(frozen=True, slots=True)
class RelevanceResult:
    """Documents, most relevant first."""

    results: list[Relevance]
    input_tokens: int | None
    """None when the provider does not tell; then it is left out."""

    def member(self) -> dict[str, object]:
        """The tagged `result`."""
        results = [{"index": r.index, "relevance_score": r.score} for r in self.results]
        return {"kind": "relevance_scores", "results": results} | _told(self.input_tokens)


@dataclass(frozen=True, slots=True)
class DecisionsResult:
    """Answers by the names of their questions."""

    answers: dict[str, dict[str, object]]
    input_tokens: int | None

    def member(self) -> dict[str, object]:
        """The tagged `result`."""
        return {"kind": "decisions", "answers": self.answers} | _told(self.input_tokens)


def _told(input_tokens: int | None) -> dict[str, object]:
    return {} if input_tokens is None else {"input_tokens": input_tokens}


Result = TextResult | EmbeddingsResult | ImageResult | RelevanceResult | DecisionsResult


def result_body(request_id: str, result: Result) -> bytes:
    """The JSON body of a finite success. Raises `ContractError` (response_limit) over the bound."""
    body = json.dumps(
        {
            "contract_version": CONTRACT_VERSION,
            "request_id": request_id,
            "result": result.member(),
        },
        ensure_ascii=False,
    ).encode()
    if len(body) > MAX_RESPONSE_BYTES:
        raise ContractError(
            Code.RESPONSE_LIMIT,
            f"the answer has {len(body)} bytes; at most {MAX_RESPONSE_BYTES} are allowed",
        )
    return body


def started_record(request_id: str, capability: Capability, model: str, profile: str) -> bytes:
    """Sent once a provider has accepted the stream."""
    return _record(
        "started",
        {
            "contract_version": CONTRACT_VERSION,
            "request_id": request_id,
            "capability": capability,
            "model": model,
            "profile": profile,
        },
    )


def delta_record(request_id: str, text: str) -> bytes:
    """A piece of text. Raises `ContractError` (response_limit) when its JSON is over the bound."""
    return _record("delta", {"request_id": request_id, "text": text})


def completed_record(request_id: str, reason: FinishReason) -> bytes:
    """The only record that means success."""
    return _record("completed", {"request_id": request_id, "finish_reason": reason})


def failed_record(request_id: str, error: ContractError) -> bytes:
    """The end of a stream that failed. After headers the outcome is always unknown.

    It fits what is kept free for it: a message that does not is cut.
    """
    message = error.message
    while len(record := _failed(request_id, error.code, message)) > FAILED_RECORD_RESERVE:
        message = message[: len(message) * 7 // 8 - 1] + "…"
    return record


def _failed(request_id: str, code: Code, message: str) -> bytes:
    member = error_member(code, Outcome.UNKNOWN, message)
    return _record("failed", {"request_id": request_id, "error": member})


def _record(kind: str, members: dict[str, object]) -> bytes:
    data = json.dumps({"kind": kind, **members}, ensure_ascii=False).encode()
    if len(data) > MAX_STREAM_EVENT_BYTES:
        raise ContractError(
            Code.RESPONSE_LIMIT,
            f"a stream event of {len(data)} bytes is over the limit of {MAX_STREAM_EVENT_BYTES}",
        )
    return b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"
