"""Requests in the engines' OpenAI dialect, from operations of the contract (notes §4).

Nothing that identifies the caller goes upstream: no request id, no capability, no semantic task.
Text is always asked for as a stream, and aggregated for finite answers: an engine that streams
notices at once that its client has left.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import assert_never

from pumas_server.contract.request import (
    Capability,
    Message,
    MessagesInput,
    Operation,
    TextInput,
    TextOptions,
    TextPart,
    Unread,
)
from pumas_server.provider.projection import TextForm

CHAT_PATH = "/v1/chat/completions"
COMPLETION_PATH = "/v1/completions"


@dataclass(frozen=True, slots=True)
class TextCall:
    """One POST whose answer is a text stream."""

    path: str
    body: bytes
    form: TextForm


def build_text_call(operation: Operation, capability: Capability, model: str) -> TextCall:
    """The upstream request of a text operation that was resolved to `capability`."""
    members: dict[str, object] = {"model": model}
    if capability is Capability.CHAT_GENERATION:
        members["messages"] = _messages(operation)
        path, form = CHAT_PATH, TextForm.CHAT
    else:
        members["prompt"] = _prompt(operation)
        path, form = COMPLETION_PATH, TextForm.COMPLETION
    members |= {"stream": True, "n": 1}
    if isinstance(operation.options, TextOptions):
        members |= operation.options.model_dump(exclude={"kind"}, exclude_none=True)
    return TextCall(path, json.dumps(members, ensure_ascii=False).encode(), form)


def _messages(operation: Operation) -> list[dict[str, str]]:
    match operation.input:
        case TextInput(text=text):
            return [{"role": "user", "content": text}]
        case MessagesInput(messages=messages):
            return [{"role": m.role, "content": _content(m)} for m in messages]
        case Unread():
            raise TypeError("an unread input was resolved to a text capability")
        case _ as never:
            assert_never(never)


def _prompt(operation: Operation) -> str:
    if not isinstance(operation.input, TextInput):
        raise TypeError("text_generation was resolved for an input that is not text")
    return operation.input.text


def _content(message: Message) -> str:
    """Text parts are joined without a separator."""
    if isinstance(message.content, str):
        return message.content
    return "".join(part.text for part in message.content if isinstance(part, TextPart))
