"""One JSON line for each operation, whatever became of it."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest

from pumas_server.router.operation_log import OperationRecord
from pumas_server.router.sessions import Session
from pumas_server.telemetry import OPERATIONS, JsonFormatter, configure_logging
from support.eventually import eventually
from support.routers import SHARED_LOOP, RunningRouter, chat_operation
from support.upstream import Conversation, ScriptedUpstream, chat

pytestmark = SHARED_LOOP

FIELDS = {
    "time",
    "level",
    "operation",
    "request_id",
    "model",
    "profile",
    "capability",
    "principal",
    "status",
    "code",
    "outcome",
    "admitted",
    "request_bytes",
    "response_bytes",
    "ms",
}


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger(OPERATIONS)
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    yield stream
    logger.removeHandler(handler)
    logger.setLevel(before[0])
    logger.propagate = before[1]


def lines(log: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.getvalue().splitlines()]


async def the_line(router: RunningRouter, log: io.StringIO) -> dict[str, Any]:
    await router.idle()
    (line,) = lines(log)
    assert set(line) == FIELDS
    assert line["ms"] >= 0
    log.seek(0)
    log.truncate()
    return line


async def test_a_success(
    router: RunningRouter, upstream: ScriptedUpstream, log: io.StringIO
) -> None:
    body = json.dumps(chat_operation()).encode()
    _, _, raw = await router.post("/v1/model-operations", body)
    line = await the_line(router, log)
    assert {k: line[k] for k in FIELDS - {"time", "ms"}} == {
        "level": "info",
        "operation": "/v1/model-operations",
        "request_id": "r1",
        "model": "llm",
        "profile": "default",
        "capability": "chat_generation",
        "principal": "anonymous",
        "status": 200,
        "code": "ok",
        "outcome": "succeeded",
        "admitted": True,
        "request_bytes": len(body),
        "response_bytes": len(raw),
    }


async def test_a_streamed_success(
    router: RunningRouter, upstream: ScriptedUpstream, log: io.StringIO
) -> None:
    _, _, raw = await router.post("/v1/model-operations", chat_operation(stream=True))
    line = await the_line(router, log)
    assert (line["code"], line["outcome"]) == ("ok", "succeeded")
    assert line["response_bytes"] == len(raw)


async def test_an_openai_call(
    router: RunningRouter, upstream: ScriptedUpstream, log: io.StringIO
) -> None:
    _, _, raw = await router.post("/v1/chat/completions", {"model": "llm", "stream": True})
    line = await the_line(router, log)
    assert line["operation"] == "/v1/chat/completions"
    assert (line["model"], line["profile"], line["request_id"]) == ("llm", "default", None)
    assert (line["code"], line["status"]) == ("ok", 200)
    assert line["response_bytes"] == len(raw)


async def test_a_providers_error_that_passed(
    router: RunningRouter, upstream: ScriptedUpstream, log: io.StringIO
) -> None:
    async def refuse(talk: Conversation) -> None:
        await talk.whole(429, b"{}")

    upstream.script = refuse
    await router.post("/v1/completions", {"model": "llm"})
    line = await the_line(router, log)
    assert (line["code"], line["outcome"]) == ("provider_failure", "unknown")
    assert (line["status"], line["admitted"]) == (429, True)


@pytest.mark.parametrize(
    ("body", "request_id", "code", "status"),
    [
        (chat_operation(model="nope"), "r1", "model_not_found", 404),
        (chat_operation(extra=1), "r1", "invalid_request", 400),
        (b"nope", None, "invalid_request", 400),
    ],
)
async def test_a_refusal(
    router: RunningRouter,
    upstream: ScriptedUpstream,
    log: io.StringIO,
    body: Any,
    request_id: str | None,
    code: str,
    status: int,
) -> None:
    await router.operate(body)
    line = await the_line(router, log)
    assert (line["request_id"], line["code"], line["status"]) == (request_id, code, status)
    assert (line["outcome"], line["admitted"]) == ("not_admitted", False)


async def test_an_openai_refusal(
    router: RunningRouter, upstream: ScriptedUpstream, log: io.StringIO
) -> None:
    await router.post("/v1/completions", {"model": "nope"})
    line = await the_line(router, log)
    assert (line["code"], line["status"]) == ("model_not_found", 404)
    await router.post("/v1/completions", b"")
    line = await the_line(router, log)
    assert (line["code"], line["model"]) == ("invalid_request", None)


async def test_a_failed_stream(
    router: RunningRouter, upstream: ScriptedUpstream, log: io.StringIO
) -> None:
    async def broken(talk: Conversation) -> None:
        await talk.head()
        await talk.chunk(chat("first"))
        talk.cut()

    upstream.script = broken
    await router.stream(chat_operation())
    line = await the_line(router, log)
    assert (line["code"], line["outcome"], line["status"]) == ("transport_lost", "unknown", 200)
    with pytest.raises(aiohttp.ClientPayloadError):
        await router.post("/v1/completions", {"model": "llm", "stream": True})
    line = await the_line(router, log)
    assert (line["code"], line["outcome"]) == ("transport_lost", "unknown")


@pytest.mark.parametrize("route", ["/v1/model-operations", "/v1/completions"])
@pytest.mark.parametrize("streamed", [False, True], ids=["silent", "streaming"])
async def test_a_caller_that_left(
    router: RunningRouter,
    upstream: ScriptedUpstream,
    log: io.StringIO,
    route: str,
    streamed: bool,
) -> None:
    async def script(talk: Conversation) -> None:
        if streamed:
            await talk.head()
            await talk.chunk(chat("first"))
        await talk.caller_left()

    upstream.script = script
    body = chat_operation(stream=True) | ({} if "operations" in route else {"prompt": "x"})
    async with router.raw(route, body) as (reader, _):
        if streamed:
            await asyncio.wait_for(reader.readuntil(b"first"), 5)
        else:
            await eventually(lambda: len(upstream.seen) == 1, "it was sent")
    line = await the_line(router, log)
    assert (line["code"], line["outcome"], line["admitted"]) == ("transport_lost", "unknown", True)
    assert line["status"] == (200 if streamed else None)


async def test_a_caller_that_left_before_the_marker(
    router: RunningRouter, upstream: ScriptedUpstream, log: io.StringIO
) -> None:
    async with router.raw("/v1/model-operations", b"{", announced=10):
        await eventually(lambda: len(router.router.sessions) == 1, "its body is awaited")
    line = await the_line(router, log)
    assert (line["code"], line["outcome"]) == ("transport_lost", "not_admitted")
    assert line["status"] is None


async def test_hostile_words_are_escaped_and_cut(
    router: RunningRouter, upstream: ScriptedUpstream, log: io.StringIO
) -> None:
    for name in ('a"}\n{"code":"ok', "\u2028\x1b[31m\u202e", "\ud800", "n" * 1_000_000):
        await router.post("/v1/chat/completions", {"model": name})
        assert log.getvalue().count("\n") == 1
        assert log.getvalue().isascii()
        assert len(log.getvalue()) < 4000
        line = await the_line(router, log)
        assert line["model"] == name[:256]


async def test_discovery_is_no_operation(router: RunningRouter, log: io.StringIO) -> None:
    await router.get("/v1/served-models")
    assert log.getvalue() == ""


def written(log: io.StringIO, error: BaseException | None) -> dict[str, Any]:
    try:
        with OperationRecord("/r", Session(), "p"):
            if error is not None:
                raise error
    except BaseException as raised:
        assert raised is error
    (line,) = lines(log)
    return line


async def test_nothing_is_a_success_by_default(log: io.StringIO) -> None:
    assert written(log, None)["code"] == "internal_error"


async def test_a_fault_of_ours(log: io.StringIO) -> None:
    line = written(log, RuntimeError("x"))
    assert (line["code"], line["outcome"]) == ("internal_error", "not_admitted")


async def test_a_cancelled_operation(log: io.StringIO) -> None:
    assert written(log, asyncio.CancelledError())["code"] == "transport_lost"


async def test_lines_of_other_loggers_are_json_too() -> None:
    stream = io.StringIO()
    root = logging.getLogger()
    before = root.handlers[:], root.level, logging.getLogger(OPERATIONS).level
    try:
        configure_logging(stream)
        logging.getLogger("a.b").warning("two\nlines %s", '"x"')
        logging.getLogger("a.b").info("not told")
        try:
            raise ValueError("why")
        except ValueError:
            logging.getLogger("a.b").exception("failed")
        with OperationRecord("/r", Session(), "p") as record:
            record.succeeded()
    finally:
        root.handlers[:] = before[0]
        root.setLevel(before[1])
        logging.getLogger(OPERATIONS).setLevel(before[2])
    warned, failed, operation = lines(stream)
    assert (warned["level"], warned["logger"]) == ("warning", "a.b")
    assert warned["message"] == 'two\nlines "x"'
    assert "ValueError: why" in failed["exception"]
    assert operation["operation"] == "/r"
