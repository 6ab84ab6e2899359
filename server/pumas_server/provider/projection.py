"""Projects a provider's text stream onto the contract, with every terminal rule (*Errors*, SSE).

`TextProjection` is fed the payloads of events in order and gives back pieces of text; it raises
`ContractError` at the first incoherence. A stream is complete only when `end` returns: one terminal
choice, then `[DONE]`, then the end of the body, and nothing between or behind them.
"""

from __future__ import annotations

import json
from enum import Enum, auto
from typing import Any, NoReturn

from pumas_server.contract.errors import Code, ContractError
from pumas_server.contract.redaction import redact_foreign
from pumas_server.contract.results import FinishReason

DONE = "[DONE]"


def _refuse_constant(literal: str) -> NoReturn:
    raise ValueError(f"{literal} is no JSON number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


class TextForm(Enum):
    """Which of the two shapes of the dialect a stream has."""

    CHAT = auto()
    COMPLETION = auto()


class TextProjection:
    """The state of one text stream."""

    def __init__(self, form: TextForm) -> None:
        self._form = form
        self._done = False
        self.finish_reason: FinishReason | None = None

    def feed(self, payload: str) -> str:
        """The text that one event adds; empty for events that add none."""
        if self._done:
            _incoherent("sent an event after [DONE]")
        if payload == DONE:
            if self.finish_reason is None:
                _incoherent("sent [DONE] without a finish reason")
            self._done = True
            return ""
        event = _decode(payload)
        choices = event.get("choices")
        if choices == [] and isinstance(event.get("usage"), dict):
            return ""
        choice = _one_choice(choices)
        if self.finish_reason is not None:
            _incoherent("sent a choice after the finish reason")
        text = _delta_text(choice) if self._form is TextForm.CHAT else _completion_text(choice)
        if not text.isascii():
            _refuse_surrogates(text)
        self.finish_reason = _finish_reason(choice)
        return text

    def end(self, *, at_boundary: bool) -> FinishReason:
        """The finish reason of a stream whose body ended cleanly."""
        if not at_boundary:
            _incoherent("ended inside an event")
        if self.finish_reason is None:
            _incoherent("ended without a finish reason")
        if not self._done:
            _incoherent("ended without [DONE]")
        return self.finish_reason


def provider_reason(body: bytes) -> str:
    """The reason inside a provider's error body, redacted; empty when there is none."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    return _reason(document) if isinstance(document, dict) else ""


def _reason(document: dict[str, Any]) -> str:
    error = document.get("error")
    if isinstance(error, dict):
        error = error.get("message")
    if not isinstance(error, str):
        error = document.get("message") or document.get("detail")
    return redact_foreign(error) if isinstance(error, str) else ""


def _decode(payload: str) -> dict[str, Any]:
    try:
        event = _DECODER.decode(payload)
    except (ValueError, RecursionError):
        _incoherent("sent an event that is not JSON")
    if not isinstance(event, dict):
        _incoherent("sent an event that is not an object")
    refuse_reported_error(event)
    return event


def refuse_reported_error(document: dict[str, Any]) -> None:
    """Raise `ContractError` (provider_failure) when an event or answer holds an error."""
    if document.get("error") is not None:
        reason = _reason(document)
        raise ContractError(
            Code.PROVIDER_FAILURE,
            f"the provider reported: {reason}" if reason else "the provider reported an error",
        )


def _one_choice(choices: Any) -> dict[str, Any]:
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        _incoherent("sent an event without exactly one choice")
    choice: dict[str, Any] = choices[0]
    index = choice.get("index")
    if not isinstance(index, int) or isinstance(index, bool) or index != 0:
        _incoherent("sent a choice whose index is not 0")
    return choice


def _delta_text(choice: dict[str, Any]) -> str:
    delta = choice.get("delta")
    if not isinstance(delta, dict):
        _incoherent("sent a choice without a delta")
    if delta.get("role") not in (None, "assistant"):
        _incoherent("sent a delta of another role than assistant")
    for foreign in ("tool_calls", "function_call", "refusal"):
        if delta.get(foreign) is not None:
            _incoherent(f"sent a delta with {foreign}")
    content = delta.get("content")
    if content is None:
        return ""
    if not isinstance(content, str):
        _incoherent("sent a delta whose content is not text")
    return content


def _completion_text(choice: dict[str, Any]) -> str:
    text = choice.get("text")
    if not isinstance(text, str):
        _incoherent("sent a choice without text")
    return text


def _refuse_surrogates(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        _incoherent("sent half of a surrogate pair")


def _finish_reason(choice: dict[str, Any]) -> FinishReason | None:
    reason = choice.get("finish_reason")
    if reason is None:
        return None
    try:
        return FinishReason(reason)
    except ValueError:
        _incoherent("ended with an unknown finish reason")


def _incoherent(what: str) -> NoReturn:
    raise ContractError(Code.INVALID_PROVIDER_RESULT, f"the provider {what}")
