"""What goes upstream for a text operation, byte for byte, and what never does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from pumas_server.contract.inputs import MessagesInput, TextInput
from pumas_server.contract.registry import parse_operation
from pumas_server.contract.request import Operation, Unread
from pumas_server.contract.words import Capability
from pumas_server.provider.dialect import build_text_call
from pumas_server.provider.projection import TextForm
from support.documents import documents, operation, raw

CHAT, TEXT = Capability.CHAT_GENERATION, Capability.TEXT_GENERATION


def test_chat() -> None:
    parsed = operation(
        input={
            "kind": "messages",
            "messages": [
                {"role": "system", "content": "be\nshort"},
                {
                    "role": "user",
                    "content": [{"kind": "text", "text": "hel"}, {"kind": "text", "text": "lo é"}],
                },
            ],
        },
        options={
            "kind": "text_generation", "max_tokens": 32, "temperature": 0, "top_p": 0.5,
        },
    )  # fmt: skip
    call = build_text_call(parsed, CHAT, "org/model")
    assert (call.path, call.form) == ("/v1/chat/completions", TextForm.CHAT)
    assert (
        call.body
        == (
            '{"model": "org/model", "messages": [{"role": "system", "content": "be\\nshort"},'
            ' {"role": "user", "content": "hello é"}], "stream": true, "n": 1,'
            ' "max_tokens": 32, "temperature": 0.0, "top_p": 0.5}'
        ).encode()
    )


def test_completion() -> None:
    parsed = operation(input={"kind": "text", "text": "Hello"}, capability="text_generation")
    call = build_text_call(parsed, TEXT, "served")
    assert (call.path, call.form) == ("/v1/completions", TextForm.COMPLETION)
    assert call.body == b'{"model": "served", "prompt": "Hello", "stream": true, "n": 1}'


def test_a_text_sent_to_chat_is_one_user_message() -> None:
    call = build_text_call(operation(input={"kind": "text", "text": "Hello"}), CHAT, "served")
    assert json.loads(call.body)["messages"] == [{"role": "user", "content": "Hello"}]


@pytest.mark.parametrize("stream", [True, False, ...])
def test_upstream_is_always_asked_for_a_stream(stream: Any) -> None:
    assert json.loads(build_text_call(operation(stream=stream), CHAT, "m").body)["stream"] is True


@pytest.mark.parametrize("options", [..., None, {"kind": "text_generation", "top_p": None}])
def test_options_that_are_not_set_are_not_sent(options: Any) -> None:
    body = json.loads(build_text_call(operation(options=options), CHAT, "m").body)
    assert set(body) == {"model", "messages", "stream", "n"}


def test_nothing_of_the_callers_identity_goes_upstream() -> None:
    parsed = operation(
        request_id="caller-77",
        model="their-alias",
        profile="their-profile",
        semantic_task="chat_generation",
    )
    body = build_text_call(parsed, CHAT, "upstream-name").body
    for word in (b"caller-77", b"their-alias", b"their-profile", b"chat_generation", b"kind"):
        assert word not in body


@pytest.mark.parametrize(
    ("changes", "capability"),
    [
        ({"input": {"kind": "rerank"}}, CHAT),
        ({"input": {"kind": "rerank"}}, TEXT),
        ({}, TEXT),
    ],
)
def test_an_input_that_was_resolved_wrongly_is_a_fault_of_ours(
    changes: dict[str, Any], capability: Capability
) -> None:
    with pytest.raises(TypeError, match="was resolved"):
        build_text_call(operation(**changes), capability, "m")


def test_an_input_of_no_known_type_is_a_fault_of_ours() -> None:
    foreign = operation().model_copy(update={"input": object()})
    with pytest.raises(AssertionError):
        build_text_call(foreign, CHAT, "m")


def _all_text(parsed: Operation) -> bool:
    match parsed.input:
        case TextInput():
            return True
        case MessagesInput(messages=messages):
            parts = [p for m in messages if not isinstance(m.content, str) for p in m.content]
            return not any(isinstance(part, Unread) for part in parts)
        case Unread():
            return False


@settings(deadline=None, max_examples=60)
@given(body=documents)
def test_every_text_goes_upstream_as_it_came(body: dict[str, Any]) -> None:
    parsed = parse_operation(raw(body))
    if not _all_text(parsed):
        return
    sent = json.loads(build_text_call(parsed, CHAT, "m").body)
    match parsed.input:
        case TextInput(text=text):
            expected = [("user", text)]
        case MessagesInput(messages=messages):
            expected = [
                (
                    m.role,
                    m.content
                    if isinstance(m.content, str)
                    else "".join(getattr(part, "text") for part in m.content),  # noqa: B009
                )
                for m in messages
            ]
        case Unread():
            raise AssertionError("excluded above")
    assert [(m["role"], m["content"]) for m in sent["messages"]] == expected
