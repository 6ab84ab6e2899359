"""What becomes of a key when the API server refuses, breaks off, or is not there."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from pumas_server.router.lmsp.lease_records import LeaseRecords
from pumas_server.router.lmsp.request_records import (
    Claimed,
    InProgress,
    RecordsUnavailable,
    Replayed,
)
from support.api_server import Fault, ScriptedApiServer, cut, refuse, say
from support.request_leases import (
    ANSWER,
    DEADLINE,
    HOME,
    LEASE,
    LEASES,
    SAME,
    claimed,
    found,
    sent,
)
from support.told_clock import ToldClock


@pytest.mark.parametrize("fault", [cut, refuse(500), refuse(504), say(b"<html>")])
@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_a_claim_without_an_answer_is_ours_if_it_stands_there(
    method: str, fault: Fault, records: LeaseRecords, server: ScriptedApiServer, clock: ToldClock
) -> None:
    if method == "PUT":
        await claimed(records)
        clock.pass_by(DEADLINE)
    server.asked.clear()
    server.fail(_path(method), server.and_then(fault), method=method)
    claim = await claimed(records)
    assert sent(server) == (["POST", "GET"] if method == "POST" else ["POST", "GET", "PUT", "GET"])
    await records.store(claim, ANSWER)
    assert await records.claim(*SAME) == Replayed(ANSWER)


@pytest.mark.parametrize("fault", [cut, refuse(503), say(b"[]")])
@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_a_claim_that_was_not_made_is_told(
    method: str, fault: Fault, records: LeaseRecords, server: ScriptedApiServer, clock: ToldClock
) -> None:
    if method == "PUT":
        await claimed(records)
        clock.pass_by(DEADLINE)
    server.fail(_path(method), fault, method=method)
    with pytest.raises(RecordsUnavailable, match="not known"):
        await records.claim(*SAME)
    await claimed(records)


async def test_a_claim_whose_answer_is_lost_twice_ends_at_its_deadline(
    records: LeaseRecords, server: ScriptedApiServer, clock: ToldClock
) -> None:
    server.fail(LEASES, server.and_then(cut), method="POST")
    server.fail(LEASE, cut)
    with pytest.raises(RecordsUnavailable):
        await records.claim(*SAME)
    assert await records.claim(*SAME) == InProgress()
    clock.pass_by(DEADLINE)
    await claimed(records)


@pytest.mark.parametrize("status", [302, 400, 401, 403, 422, 429])
@pytest.mark.parametrize(
    ("method", "verb"), [("POST", "create"), ("GET", "get"), ("PUT", "update")]
)
async def test_what_a_refused_claim_means(
    method: str,
    verb: str,
    status: int,
    records: LeaseRecords,
    server: ScriptedApiServer,
    clock: ToldClock,
) -> None:
    await claimed(records)
    clock.pass_by(DEADLINE)
    server.asked.clear()
    server.fail(_path(method), refuse(status), method=method)
    with pytest.raises(RecordsUnavailable, match=f"{verb} leases in its own namespace") as told:
        await records.claim(*SAME)
    assert sent(server)[-1] == method
    assert not any(word in str(told.value) for word in (HOME, "127.0.0.1", "pumas-", "/apis"))


async def test_a_namespace_that_is_gone_is_told(
    records: LeaseRecords, server: ScriptedApiServer
) -> None:
    server.fail(LEASES, refuse(404, "NotFound"), method="POST")
    with pytest.raises(RecordsUnavailable, match="could not create leases"):
        await records.claim(*SAME)
    assert sent(server) == ["POST"]


@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_a_record_that_goes_meanwhile_is_made_anew(
    method: str, records: LeaseRecords, server: ScriptedApiServer, clock: ToldClock
) -> None:
    await claimed(records)
    clock.pass_by(DEADLINE)

    async def gone(request: Any) -> Any:
        server.delete(LEASES, found(server) or {})
        return await server.carry_out(request)

    server.fail(LEASE, gone, method=method)
    server.asked.clear()
    await claimed(records)
    assert sent(server)[-1] == "POST"


async def test_a_record_that_never_holds_still_is_given_up(
    records: LeaseRecords, server: ScriptedApiServer
) -> None:
    for _ in range(5):
        server.fail(LEASES, refuse(409, "AlreadyExists"), method="POST")
    with pytest.raises(RecordsUnavailable, match="at once"):
        await records.claim(*SAME)
    assert sent(server) == ["POST", "GET"] * 5


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("fault", [cut, refuse(500), refuse(503)])
async def test_an_answer_that_may_be_stored_or_not(
    fault: Fault, done: bool, records: LeaseRecords, server: ScriptedApiServer, clock: ToldClock
) -> None:
    claim = await claimed(records)
    server.fail(LEASE, server.and_then(fault) if done else fault, method="PATCH")
    with pytest.raises(RecordsUnavailable, match="not known"):
        await records.store(claim, ANSWER)
    assert sent(server) == ["POST", "PATCH"]
    assert await records.claim(*SAME) == (Replayed(ANSWER) if done else InProgress())
    clock.pass_by(DEADLINE)
    assert isinstance(await records.claim(*SAME), Replayed if done else Claimed)


@pytest.mark.parametrize("status", [400, 403, 404, 409, 413, 422, 429])
async def test_an_answer_that_is_refused(
    status: int, records: LeaseRecords, server: ScriptedApiServer, clock: ToldClock
) -> None:
    claim = await claimed(records)
    server.fail(LEASE, refuse(status), method="PATCH")
    with pytest.raises(RecordsUnavailable):
        await records.store(claim, ANSWER)
    clock.pass_by(DEADLINE)
    await claimed(records)


@pytest.mark.parametrize(
    ("fault", "lines"),
    [(cut, 1), (refuse(403), 1), (refuse(404), 0), (refuse(409), 0), (refuse(503), 1)],
)
async def test_a_key_that_cannot_be_given_back_ends_by_itself(
    fault: Fault,
    lines: int,
    records: LeaseRecords,
    server: ScriptedApiServer,
    clock: ToldClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    claim = await claimed(records)
    server.fail(LEASE, fault, method="DELETE")
    with caplog.at_level(logging.WARNING):
        await records.release(claim)
    assert len(caplog.records) == lines
    clock.pass_by(DEADLINE)
    await claimed(records)


def _path(method: str) -> str:
    return LEASES if method == "POST" else LEASE
