"""What else a provider can do wrong, told on every kind of call, finite and streamed.

Each fault is one answer of a provider and what it has to mean: to an operation, and on an OpenAI
route, which hands on what the provider said as far as it may.
"""

from __future__ import annotations

import asyncio
import gzip
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import pytest
import pytest_asyncio

from support.calls import CALLS, Call, Framing, raw_answer
from support.eventually import eventually
from support.faults import BROKEN, OK, Bench, Told, bench, sends
from support.routers import SHARED_LOOP
from support.upstream import Conversation, Script

pytestmark = SHARED_LOOP

LOST, FAILURE, INCOHERENT = "transport_lost", "provider_failure", "invalid_provider_result"
REASON = b'{"error":{"message":"too many words, see /opt/x.log at 10.0.0.7:8080","code":"full"}}'
SECRETS = ("/opt", "10.0.0.7")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Bench]:
    async with bench() as made:
        yield made


def whole(call: Call, *fields: str, framing: Framing = Framing.LENGTH) -> bytes:
    """A whole answer with more header fields."""
    head, body = raw_answer(call, framing)
    return head[:-2] + "".join(f"{field}\r\n" for field in fields).encode() + b"\r\n" + body


def answered(
    status: int, body: bytes = b"", content_type: str = "application/json", *fields: str
) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"content-type: {content_type}", *fields]
    return "\r\n".join([*lines, f"content-length: {len(body)}", "", ""]).encode() + body


def of_length(call: Call, more: int) -> bytes:
    """An answer whose header says that it is so much longer than it is."""
    head, body = raw_answer(call, Framing.LENGTH)
    said = b"content-length: "
    return head.replace(b"%s%d" % (said, len(body)), b"%s%d" % (said, len(body) + more)) + body


@dataclass(frozen=True, slots=True)
class Fault:
    """One answer; its meaning to an operation, to an OpenAI route, and to one that streams."""

    answer: Callable[[Call], bytes]
    code: str
    passed: tuple[int, str]
    """Status and code."""
    passed_stream: tuple[int, str] | None = None
    """Where it differs."""
    cut: bool = False
    """Whether the connection ends behind it."""
    message: str = ""


def lost(answer: Callable[[Call], bytes], *, cut: bool = False) -> Fault:
    """One whose header never was whole."""
    return Fault(answer, LOST, (502, LOST), cut=cut)


def fine(answer: Callable[[Call], bytes], *, cut: bool = False) -> Fault:
    """No fault at all."""
    return Fault(answer, OK, (200, OK), cut=cut)


def refusal(status: int) -> Fault:
    """A provider's own: its status and reason are handed on, or told of."""
    told = f"the provider answered {status}: too many words"
    return Fault(lambda _: answered(status, REASON), FAILURE, (status, "full"), message=told)


def redirect(status: int) -> Fault:
    there = "location: /v1/other"
    return Fault(
        lambda _: answered(status, b"", "text/html", there),
        FAILURE,
        (502, FAILURE),
        message=f"the provider answered {status}",
    )


def other_type(call: Call) -> str:
    return "application/json" if call.content_type != "application/json" else "text/event-stream"


FAULTS: dict[str, Fault] = {
    **{f"status {n}": refusal(n) for n in (400, 401, 404, 409, 413, 422, 429, 500, 502, 503)},
    **{f"status {n}": redirect(n) for n in (300, 301, 302, 303, 307, 308)},
    "status 304": Fault(
        lambda _: b"HTTP/1.1 304 X\r\ncontent-length: 9\r\n\r\n", FAILURE, (502, FAILURE)
    ),
    "status 204": Fault(
        lambda _: b"HTTP/1.1 204 X\r\n\r\n", FAILURE, (204, OK), passed_stream=(502, FAILURE)
    ),
    "status 204 of the right type": Fault(
        lambda call: f"HTTP/1.1 204 X\r\ncontent-type: {call.content_type}\r\n\r\n".encode(),
        INCOHERENT,
        (204, OK),
    ),
    # It has none: what stands there is behind the answer, and nobody's.
    "status 204 with a body": Fault(
        lambda _: answered(204, REASON, "text/html"),
        FAILURE,
        (204, OK),
        passed_stream=(502, FAILURE),
    ),
    "status 204 of the right type with a body": Fault(
        lambda call: answered(204, REASON, call.content_type), INCOHERENT, (204, OK)
    ),
    "a refusal that breaks": Fault(
        lambda _: answered(500, REASON)[:-9],
        FAILURE,
        (502, LOST),
        cut=True,
        message="the provider answered 500",
    ),
    "another type": Fault(
        lambda call: answered(200, b"{}", "text/html"),
        FAILURE,
        (200, OK),
        passed_stream=(502, FAILURE),
    ),
    "gzip": Fault(
        lambda call: answered(
            200, gzip.compress(b"".join(call.answer)), call.content_type, "content-encoding: gzip"
        ),
        FAILURE,
        (200, OK),
    ),
    "an empty body": Fault(
        lambda call: answered(200, b"", call.content_type), INCOHERENT, (200, OK)
    ),
    "a length too long": Fault(
        lambda call: of_length(call, 3), LOST, (502, LOST), passed_stream=(200, BROKEN), cut=True
    ),
    "a length too short": Fault(lambda call: of_length(call, -3)[:-3], INCOHERENT, (200, OK)),
    "a garbage status line": lost(lambda call: b"HTTP/1.1 OK\r\n" + whole(call)),
    "no status line": lost(lambda call: b"".join(call.answer)),
    "another protocol": lost(lambda _: b"\x16\x03\x01\x00\x05hello"),
    "a huge header": lost(lambda call: whole(call, "x: " + "y" * 9000)),
    "a header of many fields": lost(lambda call: whole(call, *["x: y"] * 500)),
    "a field without a colon": lost(lambda call: whole(call, "nonsense")),
    "a length beside chunks": lost(
        lambda call: whole(call, "content-length: 5", framing=Framing.CHUNKED)
    ),
    "nothing but 100": lost(lambda _: b"HTTP/1.1 100 Continue\r\n\r\n", cut=True),
    "100 before it": fine(lambda call: b"HTTP/1.1 100 Continue\r\n\r\n" + whole(call)),
    "103 before it": fine(lambda call: b"HTTP/1.1 103 X\r\nlink: <x>\r\n\r\n" * 3 + whole(call)),
    "HTTP/1.0": fine(lambda call: whole(call).replace(b"HTTP/1.1", b"HTTP/1.0")),
    "HTTP/1.0 without a length": fine(
        lambda call: whole(call, framing=Framing.CLOSE).replace(b"HTTP/1.1", b"HTTP/1.0"), cut=True
    ),
    "a close that was announced": fine(lambda call: whole(call, "connection: close"), cut=True),
    "no encoding, said aloud": fine(lambda call: whole(call, "content-encoding: identity")),
    "a character set": fine(
        lambda call: whole(call).replace(
            call.content_type.encode(), call.content_type.upper().encode() + b"; charset=utf-8"
        )
    ),
}


async def ask_all(shared: Bench, script: Callable[[Call], Script]) -> list[tuple[Call, Told]]:
    """Make a call of every kind, all at once; what each was told of its one request."""
    markers = [f"it{n}" for n in range(len(CALLS))]
    asked = [shared.ask(call, m, script(call)) for call, m in zip(CALLS, markers, strict=True)]
    told = await asyncio.gather(*asked)
    assert {shared.counts[marker] for marker in markers} == {1}
    return list(zip(CALLS, told, strict=True))


@pytest.mark.parametrize("name", FAULTS)
async def test_every_kind_of_call(shared: Bench, name: str) -> None:
    fault = FAULTS[name]
    before = await shared.operations()
    recorded: Counter[tuple[str, ...]] = Counter()
    for call, told in await ask_all(shared, lambda c: sends(fault.answer(c), then_cut=fault.cut)):
        if call.operation:
            check_operation(call, fault, told)
        else:
            check_passed(call, fault, told)
        code = {"full": FAILURE, BROKEN: LOST}.get(told.code, told.code)
        outcome = "succeeded" if code == OK else "unknown"
        assert told.outcome == outcome or told.code == BROKEN, call.name
        recorded[call.capability, code, outcome, call.path] += 1
    await shared.running.idle()
    assert await shared.operations() - before == recorded
    await shared.works(*CALLS)


def check_operation(call: Call, fault: Fault, told: Told) -> None:
    # A stream that never began is told of like a finite call.
    begun = fault.code == INCOHERENT or fault.passed_stream == (200, BROKEN)
    status = 200 if fault.code == OK or (call.streamed and begun) else 502
    assert (told.status, told.code) == (status, fault.code), call.name
    assert fault.message in told.message
    assert not any(secret in told.message for secret in SECRETS)


def check_passed(call: Call, fault: Fault, told: Told) -> None:
    expected = fault.passed_stream if call.streamed and fault.passed_stream else fault.passed
    assert (told.status, told.code) == expected, call.name
    if told.code == "full":
        assert told.body == REASON
        assert told.headers["x-should-retry"] == "false"
    assert "location" not in told.headers


async def test_the_type_of_the_other_kind(shared: Bench) -> None:
    """A stream where an object was asked for, and the other way round."""
    for call, told in await ask_all(shared, lambda c: sends(answered(200, b"{}", other_type(c)))):
        if call.operation or call.streamed:
            assert (told.status, told.code, told.outcome) == (502, FAILURE, "unknown"), call.name
        else:
            assert (told.status, told.code, told.body) == (200, OK, b"{}"), call.name
    await shared.works(*CALLS)


BEHIND: dict[str, bytes] = {
    "garbage": b"xyz",
    "an answer to nobody": answered(200, b'{"poisoned":1}'),
    "a farewell": b"HTTP/1.1 408 X\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
    "half an answer": b"HTTP/1.1 200 OK\r\ncontent-",
    "an interim answer": b"HTTP/1.1 100 Continue\r\n\r\n",
}


@pytest.mark.parametrize("name", BEHIND)
@pytest.mark.parametrize("when", ["in one piece", "with its last byte", "later"])
async def test_what_comes_behind_an_answer_is_nobodys(shared: Bench, when: str, name: str) -> None:
    for call in CALLS:
        await check_behind(shared, call, when, BEHIND[name])


async def check_behind(shared: Bench, call: Call, when: str, behind: bytes) -> None:
    answer = whole(call)
    talks: list[Conversation] = []
    cut = {"in one piece": 0, "with its last byte": len(answer) - 1, "later": len(answer)}[when]

    async def script(talk: Conversation) -> None:
        talks.append(talk)
        if cut:
            await talk.send(answer[:cut])
            # When this is answered, what was sent before it has been read.
            await shared.running.get("/healthz")
        if when != "later":
            await talk.send(answer[cut:] + behind)

    told = await shared.ask(call, "it", script)
    assert shared.counts["it"] == 1
    if told.code != OK:
        # Garbage in one piece with the header: no more is known than that the connection broke.
        assert (when, behind) == ("in one piece", BEHIND["garbage"]), call.name
        assert (told.status, told.code, told.outcome) == (502, LOST, "unknown")
    await shared.running.idle()
    if when == "later":
        await talks[0].send(behind)
        await eventually(talks[0].writer.is_closing, "the router closed it")
    await shared.works(call, call, call)
