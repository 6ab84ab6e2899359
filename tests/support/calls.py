"""A call of every kind that has an adapter, and what a provider's whole answer to it is, raw."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from support.upstream import DONE

CONTRACT = "/v1/model-operations"
REQUEST_ID = "who-asked:1"


@dataclass(frozen=True, slots=True)
class Call:
    """One kind of call: what is asked, and what the whole answer of a provider to it is."""

    capability: str
    path: str
    members: dict[str, Any]
    """Of the request; the text `MARKER` in it is replaced."""
    answer: tuple[bytes, ...]
    """In as many chunks."""
    result: Any = None
    """What a finite operation makes of the answer."""

    @property
    def operation(self) -> bool:
        return self.path == CONTRACT

    @property
    def streamed(self) -> bool:
        return self.members.get("stream") is True

    @property
    def content_type(self) -> str:
        return "text/event-stream" if len(self.answer) > 1 else "application/json"

    @property
    def name(self) -> str:
        """The test's id."""
        kind = self.capability if self.operation else self.path
        return f"{kind} {'streamed' if self.streamed else 'finite'}"

    def body(self, marker: str, request_id: str = REQUEST_ID) -> bytes:
        """The request."""
        members = self.members
        if self.operation:
            mine = {"contract_version": 1, "request_id": request_id, "capability": self.capability}
            members = mine | members
        return json.dumps(members).replace("MARKER", f"marker-{marker}").encode()


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _event(**choice: Any) -> bytes:
    return b"data: " + compact({"choices": [{"index": 0, **choice}]}) + b"\n\n"


SAID = "héllo"
_CHAT = (_event(delta={"content": "hé"}), _event(delta={"content": "llo"}, finish_reason="stop"))
_TEXT = (_event(text="hé"), _event(text="llo", finish_reason="stop"))
_VECTORS = compact({"data": [{"index": 0, "embedding": [0.5, -2]}], "model": "é"})
_SCORES = compact({"results": [{"index": 0, "relevance_score": -1.5}], "model": "é"})
_ANSWERS = compact({"model": "é", "answers": {"ok": {"type": "noul", "noul": 0.25}}})
_MESSAGE = compact({"choices": [{"index": 0, "message": {"content": "hé"}}]})

_RESULT = {"kind": "text", "text": SAID, "finish_reason": "stop"}
_SAY: dict[str, Any] = {
    "model": "chat",
    "input": {"kind": "messages", "messages": [{"role": "user", "content": "MARKER"}]},
    "output": "text",
}
_COMPLETE: dict[str, Any] = _SAY | {"input": {"kind": "text", "text": "MARKER"}}
_EMBED = {
    "model": "embed",
    "input": {"kind": "text", "text": "MARKER"},
    "output": "embeddings_float32",
}
_RANK = {
    "model": "rank",
    "input": {"kind": "rerank", "query": "MARKER", "documents": ["d"]},
    "output": "relevance_scores",
}
_DECIDE = {
    "model": "decide",
    "input": {
        "kind": "decision",
        "state": "MARKER",
        "questions": {"ok": {"type": "noul", "instructions": "Is it so?"}},
    },
    "output": "decisions",
}
_OPENAI_CHAT = {"model": "chat", "messages": [{"role": "user", "content": "MARKER"}]}
_STREAM = {"stream": True}

CALLS: tuple[Call, ...] = (
    Call("chat_generation", CONTRACT, _SAY, (*_CHAT, DONE), _RESULT),
    Call("chat_generation", CONTRACT, _SAY | _STREAM, (*_CHAT, DONE)),
    Call("text_generation", CONTRACT, _COMPLETE, (*_TEXT, DONE), _RESULT),
    Call("text_generation", CONTRACT, _COMPLETE | _STREAM, (*_TEXT, DONE)),
    Call(
        "text_embedding",
        CONTRACT,
        _EMBED,
        (_VECTORS,),
        {"kind": "embeddings", "vectors": [[0.5, -2]]},
    ),
    Call(
        "rerank",
        CONTRACT,
        _RANK,
        (_SCORES,),
        {"kind": "relevance_scores", "results": [{"index": 0, "relevance_score": -1.5}]},
    ),
    Call(
        "decision",
        CONTRACT,
        _DECIDE,
        (_ANSWERS,),
        {"kind": "decisions", "answers": {"ok": {"type": "noul", "noul": 0.25}}},
    ),
    Call("chat_generation", "/v1/chat/completions", _OPENAI_CHAT, (_MESSAGE,)),
    Call("chat_generation", "/v1/chat/completions", _OPENAI_CHAT | _STREAM, (*_CHAT, DONE)),
    Call("text_embedding", "/v1/embeddings", {"model": "embed", "input": "MARKER"}, (_VECTORS,)),
    Call(
        "rerank",
        "/v1/rerank",
        {"model": "rank", "query": "MARKER", "documents": ["d"]},
        (_SCORES,),
    ),
)


class Framing(StrEnum):
    """How a caller learns where an answer ends."""

    LENGTH = "length"
    CHUNKED = "chunked"
    CLOSE = "close"


def raw_answer(call: Call, framing: Framing) -> tuple[bytes, bytes]:
    """Header and body of a whole answer, as they are on the wire."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {call.content_type}\r\n"
    whole = b"".join(call.answer)
    match framing:
        case Framing.LENGTH:
            return f"{head}content-length: {len(whole)}\r\n\r\n".encode(), whole
        case Framing.CHUNKED:
            chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in call.answer)
            return f"{head}transfer-encoding: chunked\r\n\r\n".encode(), chunks + b"0\r\n\r\n"
        case Framing.CLOSE:
            return f"{head}connection: close\r\n\r\n".encode(), whole
