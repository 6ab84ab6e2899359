"""Every terminal rule of a provider's text stream, as a table for chat and for completion."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumas_server.contract.errors import Code, ContractError
from pumas_server.contract.results import FinishReason
from pumas_server.provider.projection import DONE, TextForm, TextProjection, provider_reason

CHAT, COMPLETION = TextForm.CHAT, TextForm.COMPLETION
INVALID, FAILURE = Code.INVALID_PROVIDER_RESULT, Code.PROVIDER_FAILURE

#: Text, then the code of the fault or the finish reason, and what is told.
Told = tuple[list[str], Code | FinishReason, str]


def project(form: TextForm, *payloads: str, at_boundary: bool = True) -> Told:
    """What a stream of these payloads comes to."""
    projection = TextProjection(form)
    texts: list[str] = []
    try:
        for payload in payloads:
            if text := projection.feed(payload):
                texts.append(text)
        return texts, projection.end(at_boundary=at_boundary), ""
    except ContractError as error:
        return texts, error.code, error.message


def event(choice: Any, **members: Any) -> str:
    """An event with one choice, and what engines add to it."""
    return json.dumps({"choices": [choice], "id": "chatcmpl-x", "model": "m", **members})


def chat(content: Any = ..., finish: Any = None, **delta: Any) -> str:
    if content is not ...:
        delta["content"] = content
    return event({"finish_reason": finish, "index": 0, "delta": delta})


def completion(text: Any = "", finish: Any = None, **members: Any) -> str:
    return event({"text": text, "index": 0, "logprobs": None, "finish_reason": finish, **members})


USAGE = json.dumps({"choices": [], "usage": {"completion_tokens": 5}, "timings": {"n": 1}})
STOP = chat(finish="stop")
TEXT_STOP = completion(finish="stop")


def test_a_chat_stream_as_the_engine_sends_it() -> None:
    told = project(
        CHAT,
        chat(None, role="assistant"),
        chat("Name"),
        chat(" three"),
        chat(".<"),
        chat(finish="length"),
        USAGE,
        DONE,
    )
    assert told == (["Name", " three", ".<"], FinishReason.LENGTH, "")


def test_a_completion_stream_as_the_engine_sends_it() -> None:
    last = json.loads(completion("", "length"))
    last["usage"] = {"completion_tokens": 4}
    told = project(COMPLETION, completion(" the"), completion(" end"), json.dumps(last), DONE)
    assert told == ([" the", " end"], FinishReason.LENGTH, "")


# What does not harm a stream.
@pytest.mark.parametrize(
    ("form", "payloads", "texts"),
    [
        (CHAT, [STOP], []),
        (CHAT, [chat("a", "stop")], ["a"]),
        (CHAT, [chat(""), STOP], []),
        (CHAT, [chat("a", role=None), STOP], ["a"]),
        (CHAT, [chat("a", role="assistant"), STOP], ["a"]),
        (CHAT, [chat(None, reasoning_content="hm"), chat("a"), STOP], ["a"]),
        (CHAT, [chat("a", tool_calls=None, function_call=None, refusal=None), STOP], ["a"]),
        (CHAT, [chat("a", unknown={"x": 1}), STOP], ["a"]),
        (CHAT, [USAGE, STOP], []),
        (CHAT, [STOP, USAGE, USAGE], []),
        (CHAT, [event({"index": 0, "delta": {"content": "a"}}), STOP], ["a"]),
        (CHAT, [event({"index": 0, "delta": {"content": "a"}}, error=None), STOP], ["a"]),
        (CHAT, [chat("\u2028\u0085é😀"), STOP], ["\u2028\u0085é😀"]),
        (COMPLETION, [TEXT_STOP], []),
        (COMPLETION, [completion("a", "stop")], ["a"]),
        (COMPLETION, [completion("a", tool_calls=[{}]), TEXT_STOP], ["a"]),
        (COMPLETION, [USAGE, completion("a"), TEXT_STOP, USAGE], ["a"]),
    ],
)
def test_what_a_stream_may_hold(form: TextForm, payloads: list[str], texts: list[str]) -> None:
    assert project(form, *payloads, DONE) == (texts, FinishReason.STOP, "")


@pytest.mark.parametrize("reason", list(FinishReason))
def test_the_three_finish_reasons(reason: FinishReason) -> None:
    assert project(CHAT, chat("a"), chat(finish=reason.value), DONE)[1] is reason
    assert project(COMPLETION, completion("a", reason.value), DONE)[1] is reason


# Rules of the end: one finish reason, then [DONE], then the end of the body.
@pytest.mark.parametrize(
    ("after", "message"),
    [
        ([], "the provider ended without a finish reason"),
        (["STOP"], "the provider ended without [DONE]"),
        (["STOP", USAGE], "the provider ended without [DONE]"),
        ([DONE], "the provider sent [DONE] without a finish reason"),
        (["STOP", DONE, DONE], "the provider sent an event after [DONE]"),
        (["STOP", DONE, USAGE], "the provider sent an event after [DONE]"),
        (["STOP", DONE, "TEXT"], "the provider sent an event after [DONE]"),
        (["STOP", DONE, ""], "the provider sent an event after [DONE]"),
        (["STOP", DONE, '{"error":{"message":"x"}}'], "the provider sent an event after [DONE]"),
        (["STOP", "TEXT"], "the provider sent a choice after the finish reason"),
        (["STOP", "STOP"], "the provider sent a choice after the finish reason"),
        (["STOP", " [DONE]"], "the provider sent an event that is not JSON"),
        (["STOP", '"[DONE]"'], "the provider sent an event that is not an object"),
    ],
)
@pytest.mark.parametrize("form", [CHAT, COMPLETION])
def test_how_a_stream_must_not_end(form: TextForm, after: list[str], message: str) -> None:
    words = (
        {"STOP": STOP, "TEXT": chat("b"), "FIRST": chat("a")}
        if form is CHAT
        else {"STOP": TEXT_STOP, "TEXT": completion("b"), "FIRST": completion("a")}
    )
    payloads = [words["FIRST"], *(words.get(step, step) for step in after)]
    assert project(form, *payloads) == (["a"], INVALID, message)


def test_a_body_that_ends_inside_an_event_is_incoherent_whatever_came_before() -> None:
    told = project(CHAT, chat("a"), STOP, DONE, at_boundary=False)
    assert told == (["a"], INVALID, "the provider ended inside an event")


def test_nothing_at_all_is_incoherent() -> None:
    assert project(CHAT) == ([], INVALID, "the provider ended without a finish reason")


JSON_FAULTS = [
    ("", "an event that is not JSON"),
    ("nonsense", "an event that is not JSON"),
    ('{"choices":', "an event that is not JSON"),
    (STOP + STOP, "an event that is not JSON"),
    ('{"choices":[],"usage":{"x":NaN}}', "an event that is not JSON"),
    ("\ufeff" + STOP, "an event that is not JSON"),
    ("[" * 5000, "an event that is not JSON"),
    ('{"x":' + "9" * 5000 + "}", "an event that is not JSON"),
    ("[]", "an event that is not an object"),
    ("null", "an event that is not an object"),
    ('"text"', "an event that is not an object"),
    ("{}", "an event without exactly one choice"),
    ('{"choices":null}', "an event without exactly one choice"),
    ('{"choices":{}}', "an event without exactly one choice"),
    ('{"choices":[]}', "an event without exactly one choice"),
    ('{"choices":[],"usage":null}', "an event without exactly one choice"),
    ('{"usage":{}}', "an event without exactly one choice"),
    ('{"choices":[null]}', "an event without exactly one choice"),
    ('{"choices":["a"]}', "an event without exactly one choice"),
    ('{"choices":[{"index":0,"delta":{}},{"index":1,"delta":{}}]}',
     "an event without exactly one choice"),
    ('{"choices":[{"delta":{},"text":""}]}', "a choice whose index is not 0"),
    ('{"choices":[{"index":1,"delta":{},"text":""}]}', "a choice whose index is not 0"),
    ('{"choices":[{"index":-1,"delta":{},"text":""}]}', "a choice whose index is not 0"),
    ('{"choices":[{"index":null,"delta":{},"text":""}]}', "a choice whose index is not 0"),
    ('{"choices":[{"index":false,"delta":{},"text":""}]}', "a choice whose index is not 0"),
    ('{"choices":[{"index":0.0,"delta":{},"text":""}]}', "a choice whose index is not 0"),
    ('{"choices":[{"index":"0","delta":{},"text":""}]}', "a choice whose index is not 0"),
]  # fmt: skip


@pytest.mark.parametrize(("payload", "what"), JSON_FAULTS)
@pytest.mark.parametrize("form", [CHAT, COMPLETION])
def test_an_event_that_is_incoherent_in_both_forms(form: TextForm, payload: str, what: str) -> None:
    first = chat("a") if form is CHAT else completion("a")
    assert project(form, first, payload) == (["a"], INVALID, f"the provider sent {what}")


@pytest.mark.parametrize(
    ("payload", "what"),
    [
        (event({"index": 0}), "a choice without a delta"),
        (event({"index": 0, "delta": None}), "a choice without a delta"),
        (event({"index": 0, "delta": "a"}), "a choice without a delta"),
        (completion("a"), "a choice without a delta"),
        (chat("a", role="user"), "a delta of another role than assistant"),
        (chat("a", role=""), "a delta of another role than assistant"),
        (chat("a", role=["assistant"]), "a delta of another role than assistant"),
        (chat(5), "a delta whose content is not text"),
        (chat([]), "a delta whose content is not text"),
        (chat([{"type": "text", "text": "a"}]), "a delta whose content is not text"),
        (chat(False), "a delta whose content is not text"),
        (chat("a", tool_calls=[{}]), "a delta with tool_calls"),
        (chat("a", tool_calls=[]), "a delta with tool_calls"),
        (chat("a", function_call={}), "a delta with function_call"),
        (chat("a", refusal=""), "a delta with refusal"),
        (chat("a", refusal="no"), "a delta with refusal"),
        (chat("\ud800"), "half of a surrogate pair"),
    ],
)
def test_a_chat_delta_that_is_incoherent(payload: str, what: str) -> None:
    assert project(CHAT, payload) == ([], INVALID, f"the provider sent {what}")


@pytest.mark.parametrize(
    ("payload", "what"),
    [
        (chat("a"), "a choice without text"),
        (event({"index": 0, "finish_reason": "stop"}), "a choice without text"),
        (completion(None), "a choice without text"),
        (completion(5), "a choice without text"),
        (completion(["a"]), "a choice without text"),
        (completion("a\udfffb"), "half of a surrogate pair"),
    ],
)
def test_a_completion_choice_that_is_incoherent(payload: str, what: str) -> None:
    assert project(COMPLETION, payload) == ([], INVALID, f"the provider sent {what}")


@pytest.mark.parametrize(
    "reason", ["tool_calls", "function_call", "eos", "", "STOP", "stop ", 0, True, [], {}, ["stop"]]
)
@pytest.mark.parametrize("form", [CHAT, COMPLETION])
def test_an_unknown_finish_reason_is_incoherent(form: TextForm, reason: Any) -> None:
    payload = chat("a", reason) if form is CHAT else completion("a", reason)
    assert project(form, payload) == (
        [],
        INVALID,
        "the provider ended with an unknown finish reason",
    )


# Case 72 and the mixed envelope of case 61.
@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ('{"error":{"message":"no memory"}}', "the provider reported: no memory"),
        ('{"error":{"message":"no memory","code":500},"choices":[{"index":0,"delta":{"content":"x"}}]}',
         "the provider reported: no memory"),
        ('{"error":"slot is gone"}', "the provider reported: slot is gone"),
        ('{"error":{"message":"cannot open /models/tiny.gguf on 10.0.0.1:8080"}}',
         "the provider reported: cannot open [redacted] on [redacted]"),
        ('{"error":{"message":"bad key sk-abcdefgh12345678"}}',
         "the provider reported: bad key [redacted]"),
        ('{"error":{"message":"half \\ud800 pair"}}', "the provider reported: half pair"),
        ('{"error":{}}', "the provider reported an error"),
        ('{"error":{"message":7}}', "the provider reported an error"),
        ('{"error":true}', "the provider reported an error"),
        ('{"error":""}', "the provider reported an error"),
        ('{"error":[],"message":"top"}', "the provider reported: top"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", [CHAT, COMPLETION])
def test_an_error_frame_is_the_providers_failure(
    form: TextForm, payload: str, message: str
) -> None:
    first = chat("a") if form is CHAT else completion("a")
    assert project(form, first, payload) == (["a"], FAILURE, message)
    stop = STOP if form is CHAT else TEXT_STOP
    assert project(form, stop, payload) == ([], FAILURE, message)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"error":{"code":400,"message":"request (27 tokens) is too large","type":"x"}}',
         "request (27 tokens) is too large"),
        (b'{"error":"flat"}', "flat"),
        (b'{"message":"top"}', "top"),
        (b'{"detail":"fastapi"}', "fastapi"),
        (b'{"error":null,"detail":"x"}', "x"),
        (b'{"detail":[{"loc":[]}]}', ""),
        (b'{"error":{"message":""}}', ""),
        (b'{"error":{"message":"at /etc/passwd"}}', "at [redacted]"),
        (b"[]", ""),
        (b"{}", ""),
        (b"", ""),
        (b"\xff", ""),
        (b"<html>502</html>", ""),
        (b"[" * 100_000, ""),
        (b'{"error":{"message":"' + b"x" * 600 + b'"}}', "x" * 499 + "…"),
    ],
)  # fmt: skip
def test_the_reason_in_an_error_body(body: bytes, reason: str) -> None:
    assert provider_reason(body) == reason


_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 2), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["choices", "delta", "index", "text", "content", "finish_reason",
                             "error", "message", "usage", "role"]),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=8,
)  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(
    form=st.sampled_from(TextForm),
    payloads=st.lists(
        st.one_of(_json.map(json.dumps), st.just(DONE), st.text(max_size=6)), max_size=4
    ),
)
def test_any_payloads_raise_nothing_but_a_contract_error(
    form: TextForm, payloads: list[str]
) -> None:
    texts, outcome, _ = project(form, *payloads)
    assert outcome in (INVALID, FAILURE, *FinishReason)
    "".join(texts).encode()
