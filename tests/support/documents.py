"""Operations as callers write them: the base of the handed cases, and full inputs and options."""

from __future__ import annotations

import base64
import json
from typing import Any

from pumas_server.contract.errors import Code, ContractError
from pumas_server.contract.registry import parse_operation
from pumas_server.contract.request import Operation

Document = dict[str, Any]


def document(**changes: Any) -> Document:
    """The base operation with members replaced; `...` leaves one out."""
    body: Document = {
        "contract_version": 1,
        "request_id": "r1",
        "model": "llm",
        "capability": "chat_generation",
        "input": {"kind": "messages", "messages": [{"role": "user", "content": "hi"}]},
        "output": "text",
        "options": {"kind": "text_generation"},
    }
    body.update(changes)
    return {name: value for name, value in body.items() if value is not ...}


def with_options(kind: str = "text_generation", **members: Any) -> Document:
    """The base operation with options of that kind."""
    return document(options={"kind": kind, **members})


def with_content(content: Any, role: str = "user") -> Document:
    """The base operation with one message of this content."""
    return with_messages([{"role": role, "content": content}])


def with_messages(messages: Any) -> Document:
    """The base operation with these messages."""
    return document(input={"kind": "messages", "messages": messages})


def with_input(kind: str, **members: Any) -> Document:
    """The base operation with the full input of that kind, members replaced; `...` drops one."""
    changed = {**INPUTS[kind], **members}
    return document(input={name: value for name, value in changed.items() if value is not ...})


def raw(body: Any) -> bytes:
    """The bytes a caller sends."""
    return json.dumps(body).encode()


def operation(**changes: Any) -> Operation:
    """The parsed operation of a changed base."""
    return parse_operation(raw(document(**changes)))


def refused(body: Any) -> str:
    """What a caller is told who sends `body`; the fixed beginning is cut off."""
    try:
        parsed = parse_operation(raw(body))
    except ContractError as error:
        assert error.code is Code.INVALID_REQUEST, error.code
        assert error.request_id == "r1" or body.get("request_id") != "r1"
        beginning, _, rest = error.message.partition("request does not match the contract: ")
        assert beginning == ""
        assert rest.isprintable()
        return rest
    raise AssertionError(f"it was taken: {parsed!r}")


def told(body: Any) -> str:
    """The same without the given value, where the sentence ends with it."""
    return refused(body).partition("; it is `")[0]


def of_no_kind(place: str, member: str, kinds: str, given: Any) -> str:
    """What is told, but for the value, of `given` at a place where that member tags the kinds."""
    if isinstance(given, dict) and member in given:
        return f"`{place}.{member}` needs to be one of: {kinds}"
    return f"`{place}` needs a `{member}`, one of: {kinds}"


def image(**changes: Any) -> Document:
    """An image as a decision holds it."""
    return {"encoding": "png", "data_base64": "iVBORw0KGgo=", **changes}


def image_part(**changes: Any) -> Document:
    """An image in a message."""
    return {"kind": "image", **image(**changes)}


def clip(
    encoding: str = "pcm_s16le", rate: int = 16_000, channels: int = 1, count: int = 3
) -> Document:
    """A silent clip, whose bytes are as many as it says."""
    width = 2 if encoding == "pcm_s16le" else 4
    return {
        "encoding": encoding,
        "sample_rate_hz": rate,
        "channels": channels,
        "sample_count": count,
        "data_base64": base64.b64encode(bytes(count * channels * width)).decode(),
    }


def audio_part(**changes: Any) -> Document:
    """A clip in a message."""
    return {"kind": "audio", **clip(), **changes}


def text_part(text: str = "what is it?") -> Document:
    """A piece of text in a message."""
    return {"kind": "text", "text": text}


QUESTIONS: Document = {
    "route": {
        "type": "choice",
        "instructions": "Which team?",
        "criteria": {"billing": None, "shipping": "parcels"},
    },
    "urgency": {
        "type": "score",
        "instructions": "How urgent?",
        "criteria": ["can wait", "today"],
    },
    "refund": {
        "type": "noul",
        "instructions": "Is a refund requested?",
        "criteria": {"true": "money back", "false": "anything else"},
    },
}

#: One input of each kind, with every member that the kind has.
INPUTS: dict[str, Document] = {
    "text": {"kind": "text", "text": "Hello"},
    "text_batch": {"kind": "text_batch", "texts": ["one", "two"]},
    "messages": {
        "kind": "messages",
        "messages": [
            {"role": "system", "content": "be short"},
            {"role": "user", "content": [text_part(), image_part(), audio_part()]},
            {"role": "assistant", "content": [text_part("a cat")]},
        ],
    },
    "image_messages": {
        "kind": "image_messages",
        "messages": [
            {"role": "user", "content": "look"},
            {"role": "user", "content": [image_part(encoding="jpeg"), text_part()]},
        ],
    },
    "image": image_part(),
    "content_batch": {
        "kind": "content_batch",
        "items": [{"parts": [text_part(), image_part(), audio_part()]}, {"parts": [text_part()]}],
    },
    "decision": {
        "kind": "decision",
        "state": {"note": ["charged twice", 2, None]},
        "questions": QUESTIONS,
        "images": [image()],
        "audio": [clip("pcm_f32le", channels=2)],
    },
    "rerank": {"kind": "rerank", "query": "pandas", "documents": ["a bear", "a tree"]},
    "audio": audio_part(),
}

#: Options of each kind, with every member that the kind has.
OPTIONS: dict[str, Document] = {
    "text_generation": {"kind": "text_generation", "max_tokens": 8, "temperature": 1, "top_p": 0.5},
    "embeddings": {"kind": "embeddings", "dimensions": 4},
    "image_generation": {"kind": "image_generation", "width": 16, "height": 12, "seed": 7},
    "decision": {"kind": "decision"},
    "rerank": {"kind": "rerank", "top_n": 2},
    "audio_transcription": {
        "kind": "audio_transcription",
        "language": "en",
        "max_output_tokens": 512,
    },
}
