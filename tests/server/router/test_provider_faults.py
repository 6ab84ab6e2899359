"""What a provider does wrong after the marker: one request, outcome unknown, the right code.

Each fault is told twice: as the error body of a finite operation, and as the one `failed` record
that ends a stream which had begun.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from pumas_server.contract.bounds import FAILED_RECORD_RESERVE, MAX_RESPONSE_BYTES
from pumas_server.contract.errors import Code, ContractError
from pumas_server.contract.results import delta_record, failed_record
from pumas_server.router.contract_api import _send_deltas
from pumas_server.router.operation_log import OperationRecord
from pumas_server.router.sessions import Session
from support.routers import SHARED_LOOP, RunningRouter, chat_operation
from support.upstream import DONE, Conversation, Script, ScriptedUpstream, chat, event, say_hello

pytestmark = SHARED_LOOP

KIB_256 = 262_144

HEL = chat("hel")
STOP = chat("lo", "stop")


def choice(**members: Any) -> bytes:
    given = {"index": 0, "delta": {"content": "x"}, "finish_reason": None}
    return event({"choices": [given | members]})


def two_choices() -> bytes:
    one = {"index": 0, "delta": {"content": "x"}, "finish_reason": None}
    return event({"choices": [one, {**one, "index": 1}]})


INCOHERENT = "invalid_provider_result"

FAULTS: dict[str, tuple[tuple[bytes, ...], str]] = {
    "case 61 error and choices": (
        (event({"error": {"message": "x"}, "choices": [{"index": 0, "delta": {}}]}),),
        "provider_failure",
    ),
    "case 61 two choices": ((two_choices(),), INCOHERENT),
    "case 61 index 1": ((choice(index=1),), INCOHERENT),
    "case 61 tool calls": ((choice(delta={"tool_calls": [{}]}),), INCOHERENT),
    "case 61 role user": ((choice(delta={"role": "user", "content": "x"}),), INCOHERENT),
    "case 61 finish null": ((HEL, DONE), INCOHERENT),
    "case 61 finish tool_calls": ((chat("x", "tool_calls"), DONE), INCOHERENT),
    "case 71 no done": ((HEL, STOP), INCOHERENT),
    "case 71 done without finish": ((DONE,), INCOHERENT),
    "case 71 data after done": ((HEL, STOP, DONE, HEL), INCOHERENT),
    "case 71 done twice": ((HEL, STOP, DONE, DONE), INCOHERENT),
    "case 71 choice after finish": ((HEL, STOP, chat("x")), INCOHERENT),
    "case 71 done without blank line": ((HEL, STOP, b"data: [DONE]\n"), INCOHERENT),
    "case 71 done without line end": ((HEL, STOP, b"data: [DONE]"), INCOHERENT),
    "case 71 not UTF-8": ((HEL, b"data: \xff\xfe\n\n"), INCOHERENT),
    "case 71 not JSON": ((HEL, b"data: {nope\n\n"), INCOHERENT),
    "case 71 index 1 later": ((HEL, choice(index=1)), INCOHERENT),
    "half a surrogate pair": (
        (
            HEL,
            b'data: {"choices":[{"index":0,"delta":{"content":"\\ud800"},'
            b'"finish_reason":null}]}\n\n',
        ),
        INCOHERENT,
    ),
    "nothing at all": ((), INCOHERENT),
    "case 72 error frame": (
        (HEL, event({"error": {"message": "cannot read /models/x.gguf on 10.0.0.7:8080"}})),
        "provider_failure",
    ),
    "case 74 event over 256 KiB": (
        (HEL, b"data: " + b"x" * (KIB_256 + 1) + b"\n\n"),
        "response_limit",
    ),
    "case 74 event over 256 KiB in many lines": (
        (HEL, b"data: xxxxxxx\n" * (KIB_256 // 8 + 1) + b"\n"),
        "response_limit",
    ),
    "a comment without an end": ((HEL, b":" + b"x" * 400_000), "response_limit"),
}


def streams(*events: bytes) -> Script:
    async def script(talk: Conversation) -> None:
        await talk.stream(*events)

    return script


@pytest.mark.parametrize("name", FAULTS)
async def test_a_finite_operation_tells_of(
    router: RunningRouter, upstream: ScriptedUpstream, name: str
) -> None:
    events, code = FAULTS[name]
    upstream.script = streams(*events)
    status, headers, raw = await router.post("/v1/model-operations", chat_operation())
    error = json.loads(raw)["error"]
    assert (status, error["code"]) == (502, code)
    assert error["outcome"] == headers["x-pumas-outcome"] == "unknown"
    assert headers["x-should-retry"] == "false"
    assert_private(error["message"])
    assert len(upstream.seen) == 1


@pytest.mark.parametrize("name", FAULTS)
async def test_a_stream_ends_with(
    router: RunningRouter, upstream: ScriptedUpstream, name: str
) -> None:
    events, code = FAULTS[name]
    upstream.script = streams(*events)
    told = await router.stream(chat_operation())
    assert [kind for kind, _ in told if kind != "delta"] == ["started", "failed"]
    failed = told[-1][1]
    assert failed["error"]["code"] == code
    assert failed["error"]["outcome"] == "unknown"
    assert_private(failed["error"]["message"])
    # What came before the fault was delivered.
    assert [d["text"] for kind, d in told if kind == "delta"][:1] == (
        ["hel"] if HEL in events else []
    )
    assert len(upstream.seen) == 1


def assert_private(message: str) -> None:
    assert message
    assert "gguf" not in message
    assert "10.0.0.7" not in message


async def test_case_74_a_projected_record_over_256_kib(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    # The event is within the bound; its record, with quotes escaped and our members, is not.
    event_ = chat("x" * 200_000)
    assert len(event_) < KIB_256
    quotes = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"\\u0022" * 40_000
    upstream.script = streams(quotes + b'"},"finish_reason":null}]}\n\n', STOP, DONE)
    told = await router.stream(chat_operation())
    assert [kind for kind, _ in told] == ["started", "delta", "delta", "completed"]

    control = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"\x7f" * 262_000
    upstream.script = streams(HEL, control + b'"},"finish_reason":null}]}\n\n', STOP, DONE)
    told = await router.stream(chat_operation(request_id="r" * 128))
    assert [kind for kind, _ in told] == ["started", "delta", "failed"]
    assert told[-1][1]["error"]["code"] == "response_limit"
    # A finite answer has no records, hence no such bound.
    assert (await router.operate(chat_operation()))[0] == 200


@pytest.mark.parametrize("streamed", [False, True], ids=["finite", "streamed"])
async def test_case_64_more_than_32_mib(
    router: RunningRouter, upstream: ScriptedUpstream, streamed: bool
) -> None:
    piece = chat("x" * 120_000) * 4

    async def endless(talk: Conversation) -> None:
        await talk.head()
        try:
            while True:
                await talk.chunk(piece)
        except ConnectionError:
            talk.keep = False

    upstream.script = endless
    if streamed:
        told = await router.stream(chat_operation())
        assert [kind for kind, _ in told if kind != "delta"] == ["started", "failed"]
        error = told[-1][1]["error"]
        assert sum(len(d["text"]) for kind, d in told if kind == "delta") > 30_000_000
    else:
        status, body = await router.operate(chat_operation())
        assert status == 502
        error = body["error"]
    assert (error["code"], error["outcome"]) == ("response_limit", "unknown")
    assert "33554432" in error["message"]
    assert len(upstream.seen) == 1


async def test_the_bound_of_a_stream_counts_our_records_too() -> None:
    """Records are longer than the events they come from; a `failed` record still has room."""
    sent: list[bytes] = []

    async def send(message: Any) -> None:
        sent.append(message["body"])

    record = OperationRecord("/r", Session(), "p")
    size = len(delta_record("r1", "x"))
    record.response_bytes = MAX_RESPONSE_BYTES - FAILED_RECORD_RESERVE - 2 * size
    with pytest.raises(ContractError) as fault:
        await _send_deltas("r1", ["x"] * 3, record, send)
    assert fault.value.code is Code.RESPONSE_LIMIT
    assert b"".join(sent).count(b"event: delta") == 2
    longest = ContractError(Code.INVALID_PROVIDER_RESULT, "x" * 500)
    assert len(failed_record("r" * 128, longest)) <= FAILED_RECORD_RESERVE


async def test_a_short_text_of_many_events_over_32_mib(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    # The bound counts what the provider sends, comments too: an answer cannot hide behind them.
    piece = b": " + b"x" * 60_000 + b"\n\n"

    async def chatter(talk: Conversation) -> None:
        await talk.head()
        try:
            while True:
                await talk.chunk(piece)
        except ConnectionError:
            talk.keep = False

    upstream.script = chatter
    status, body = await router.operate(chat_operation())
    assert (status, body["error"]["code"]) == (502, "response_limit")


REFUSALS: dict[str, tuple[int, bytes, str, str]] = {
    "500 with a reason": (
        500,
        b'{"error":{"message":"CUDA error in /opt/x.cu at 10.0.0.7:8080, key sk-abcdefghij"}}',
        "application/json",
        "the provider answered 500: CUDA error in [redacted]",
    ),
    "400 without": (400, b"<html>", "text/html", "the provider answered 400"),
    "429": (429, b'{"error":"slow down"}', "application/json", "answered 429: slow down"),
    "a redirect": (307, b"", "text/plain", "the provider answered 307"),
    "200 that is JSON": (
        200,
        b'{"choices":[]}',
        "application/json",
        "something else than text/event-stream",
    ),
    "200 without a type": (200, b"data: x\n\n", "", "something else than text/event-stream"),
}


@pytest.mark.parametrize("streamed", [False, True], ids=["finite", "streamed"])
@pytest.mark.parametrize("name", REFUSALS)
async def test_case_78_no_stream_at_all_is_an_error_body(
    router: RunningRouter, upstream: ScriptedUpstream, name: str, streamed: bool
) -> None:
    status, answer, content_type, message = REFUSALS[name]

    async def refuse(talk: Conversation) -> None:
        await talk.whole(status, answer, content_type)

    upstream.script = refuse
    got, headers, raw = await router.post("/v1/model-operations", chat_operation(stream=streamed))
    error = json.loads(raw)["error"]
    assert (got, error["code"], error["outcome"]) == (502, "provider_failure", "unknown")
    assert headers["content-type"] == "application/json"
    assert message in error["message"]
    assert "sk-abcdef" not in error["message"]
    assert_private(error["message"])
    assert len(upstream.seen) == 1


async def test_a_redirect_is_not_followed(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    async def away(talk: Conversation) -> None:
        location = f"location: {upstream.url}/v1/completions\r\n"
        await talk.send(f"HTTP/1.1 307 X\r\n{location}content-length: 0\r\n\r\n".encode())

    upstream.script = away
    assert (await router.operate(chat_operation()))[1]["error"]["code"] == "provider_failure"
    status, headers, raw = await router.post("/v1/chat/completions", {"model": "llm"})
    assert (status, json.loads(raw)["error"]["code"]) == (502, "provider_failure")
    assert "location" not in headers
    assert [seen.path for seen in upstream.seen] == ["/v1/chat/completions"] * 2


async def test_an_encoding_nobody_asked_for(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    async def packed(talk: Conversation) -> None:
        await talk.head(content_encoding="gzip")
        await talk.chunk(b"\x1f\x8b")
        await talk.end()

    upstream.script = packed
    status, body = await router.operate(chat_operation())
    assert (status, body["error"]["code"]) == (502, "provider_failure")
    upstream.script = say_hello
