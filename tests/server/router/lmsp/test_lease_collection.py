"""Records that are nobody's go; those of others, and what changes meanwhile, stay."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pumas_crds.served_model import ServedModel
from pumas_server.router.cluster_steering import ClusterSteering
from pumas_server.router.lmsp.lease_records import LeaseRecords
from pumas_server.router.lmsp.request_lease import lease_name
from pumas_server.router.lmsp.request_records import (
    Claimed,
    RecordsUnavailable,
    StoredAnswer,
)
from support.api_server import Fault, ScriptedApiServer, cut, refuse, say
from support.cluster_following import access_to
from support.cluster_objects import model_object
from support.request_leases import DAY, HOME, LEASES
from support.told_clock import ToldClock


async def stored(records: LeaseRecords, *keys: str) -> None:
    for key in keys:
        claim = await records.claim("me", key, "same")
        assert isinstance(claim, Claimed)
        await records.store(claim, StoredAnswer(200, key))


def keys_left(server: ScriptedApiServer, keys: str) -> str:
    left = {body["metadata"]["name"] for body in server.store.listed(LEASES)}
    return "".join(key for key in keys if lease_name("me", key) in left)


async def test_what_is_a_day_old_goes_over_all_pages(
    records: LeaseRecords, server: ScriptedApiServer, clock: ToldClock
) -> None:
    server.page = 3
    await stored(records, *"abcdefg")
    clock.pass_by(DAY - 1)
    await stored(records, *"xy")
    await records.collect()
    assert keys_left(server, "abcdefgxy") == "abcdefgxy"
    clock.pass_by(1)
    server.asked.clear()
    # Pages move up while their objects go, so that one round may leave some to the next.
    for _ in range(3):
        await records.collect()
    assert keys_left(server, "abcdefgxy") == "xy"
    listings = [asked for asked in server.asked if asked.method == "GET"]
    assert any("continue" in asked.query for asked in listings)
    assert {asked.query["labelSelector"] for asked in listings} == {
        "serving.pumas.dev/purpose=request"
    }


async def test_dead_claims_and_unreadable_records_go_and_living_ones_stay(
    records: LeaseRecords, server: ScriptedApiServer, clock: ToldClock
) -> None:
    await records.claim("me", "dead", "same")
    clock.pass_by(46)
    await records.claim("me", "living", "same")
    labels = {"serving.pumas.dev/purpose": "request"}
    server.put(LEASES, {"metadata": {"name": "garbled", "uid": "g", "labels": labels}})
    await records.collect()
    names = [body["metadata"]["name"] for body in server.store.listed(LEASES)]
    assert names == [lease_name("me", "living")]


async def test_leases_of_another_purpose_are_not_even_listed(
    records: LeaseRecords, server: ScriptedApiServer, clock: ToldClock
) -> None:
    async with access_to(server) as access:
        steering = ClusterSteering(access, HOME, "router", clock)
        await steering.renew(ServedModel.model_validate(model_object()))
    server.put(LEASES, {"metadata": {"name": "pumas-operator", "uid": "o", "labels": {}}})
    clock.pass_by(10 * DAY)
    await records.collect()
    assert len(server.store.listed(LEASES)) == 2


async def test_a_record_that_is_taken_over_meanwhile_stays(
    records: LeaseRecords, server: ScriptedApiServer, clock: ToldClock
) -> None:
    await stored(records, "a")
    clock.pass_by(DAY)

    async def taken_over(request: Any) -> Any:
        assert isinstance(await records.claim("me", "a", "other"), Claimed)
        return await server.carry_out(request)

    server.fail(f"{LEASES}/{lease_name('me', 'a')}", taken_over, method="DELETE")
    await records.collect()
    assert keys_left(server, "a") == "a"


async def test_several_routers_collect_at_once(
    records: LeaseRecords, server: ScriptedApiServer, clock: ToldClock
) -> None:
    await stored(records, *"abcdefg")
    clock.pass_by(DAY)
    await stored(records, "x")
    async with access_to(server) as access:
        others = [LeaseRecords(access, HOME, clock) for _ in range(3)]
        await asyncio.gather(*(each.collect() for each in (records, *others)))
    assert keys_left(server, "abcdefgx") == "x"


@pytest.mark.parametrize("fault", [cut, refuse(403), refuse(500), say(b"[]")])
@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_trouble_is_told_and_the_next_round_does_it(
    method: str, fault: Fault, records: LeaseRecords, server: ScriptedApiServer, clock: ToldClock
) -> None:
    await stored(records, "a")
    clock.pass_by(DAY)
    path = LEASES if method == "GET" else f"{LEASES}/{lease_name('me', 'a')}"
    server.fail(path, fault, method=method)
    with pytest.raises(RecordsUnavailable, match="list and delete its own leases") as told:
        await records.collect()
    assert not any(word in str(told.value) for word in (HOME, "127.0.0.1", "/apis"))
    await records.collect()
    assert keys_left(server, "a") == ""


async def test_a_listing_that_is_too_old_to_go_on_is_left(
    records: LeaseRecords, server: ScriptedApiServer, clock: ToldClock
) -> None:
    await stored(records, "a")
    server.fail(LEASES, refuse(410, "Expired"))
    await records.collect()


@pytest.mark.parametrize("body", [b"{}", b'{"items": 7}', b'{"items": [7], "metadata": 7}'])
async def test_a_listing_that_is_none_deletes_nothing(
    body: bytes, records: LeaseRecords, server: ScriptedApiServer, clock: ToldClock
) -> None:
    await stored(records, "a")
    server.fail(LEASES, say(body))
    await records.collect()
    assert keys_left(server, "a") == "a"
