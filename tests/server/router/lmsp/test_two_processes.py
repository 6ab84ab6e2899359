"""Two router processes without shared memory: one is killed at each step of a load.

Whatever it was at, the other lists the same models byte by byte, no key is held for longer than a
claim lasts, and the load happens once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from support.router_process import RouterProcess
from support.routers import SHARED_LOOP
from support.two_routers import Told, TwoRouters, two_routers

pytestmark = [SHARED_LOOP, pytest.mark.xdist_group("two-processes")]

PLAIN = ("PATCH demand", "POST demand", "PATCH scale")
KEYED = ("POST record", *PLAIN, "PATCH record")
"""All that a router sends for a load, without a key and with one."""

MOMENTS = [
    pytest.param(step, keyed, id=f"{step}, {'keyed' if keyed else 'plain'}")
    for keyed, steps in ((False, PLAIN), (True, KEYED))
    for step in steps
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TwoRouters]:
    folder: Path = tmp_path_factory.mktemp("two-routers")
    async with two_routers(folder) as two:
        yield two


@pytest_asyncio.fixture(loop_scope="module")
async def two(shared: TwoRouters) -> TwoRouters:
    """Both run, whatever the test before did."""
    for router in shared.both:
        if not router.runs:
            router.start_again()
            await shared.until_ready(router)
    shared.steps.clear()
    return shared


def is_loading(told: Told, *, replayed: bool = False) -> bool:
    """The load was taken on, now or by an earlier request."""
    assert (told.status, told.json["status"]) == (202, "loading")
    return ("Idempotent-Replayed" in told.headers) is replayed


def is_in_progress(told: Told) -> bool:
    return (told.status, told.json["code"]) == (409, "idempotency_in_progress")


async def killed(two: TwoRouters, router: RouterProcess, *asking: asyncio.Task[Told]) -> None:
    """Kill it; those who asked it hear nothing."""
    router.kill()
    for told in await asyncio.gather(*asking, return_exceptions=True):
        assert isinstance(told, aiohttp.ClientError), told


@pytest.mark.parametrize(("key", "steps"), [("", PLAIN), ("a-key", KEYED)])
async def test_a_load_sends_these_requests_and_no_more(
    key: str, steps: tuple[str, ...], two: TwoRouters
) -> None:
    await two.add(name := f"whole-{len(steps)}")
    assert is_loading(await two.load(two.a, name, key))
    assert two.steps == list(steps)
    assert two.loaded_once(name)


@pytest.mark.parametrize(("step", "keyed"), MOMENTS)
async def test_a_router_that_is_killed_leaves_nothing_that_lasts(
    step: str, keyed: bool, two: TwoRouters, request: pytest.FixtureRequest
) -> None:
    """In the midst of two loads: of one the request has not arrived, of the other it was done."""
    number = request.node.callspec.indices["step"]
    dying, left = two.both if number % 2 else two.both[::-1]
    names = {done: f"m{number}-{'done' if done else 'lost'}" for done in (False, True)}
    for name in names.values():
        before = await two.add(name)
    asking = []
    for done, name in names.items():
        hold = two.hold(step, done=done)
        asking.append(asyncio.create_task(two.load(dying, name, f"key-of-{name}" if keyed else "")))
        await hold.until_reached()
    await killed(two, dying, *asking)
    # Nothing of it is in the catalogue: that is what the operator says.
    assert await two.catalogue(left) == before
    if keyed:
        await use_keys_again(two, left, names, step)
    for name in names.values():
        assert is_loading(await two.load(left, name))
        assert two.loaded_once(name)
        two.become(name, "loading")
    after = await two.until_listed(left, names[True], "loading")
    assert (after.etag, after.revision) != (before.etag, before.revision)
    dying.start_again()
    await two.until_ready(dying)
    assert await two.catalogue(dying) == after


async def use_keys_again(
    two: TwoRouters, left: RouterProcess, names: dict[bool, str], step: str
) -> None:
    """The keys of a router that died at that step are good again, and what was done counts."""
    for done, name in names.items():
        told = await two.load(left, name, f"key-of-{name}")
        match step, done:
            case "POST record", False:
                assert is_loading(told)
            case "PATCH record", True:
                assert is_loading(told, replayed=True)
            case _:
                assert is_in_progress(told)
    two.let_claims_end()
    for done, name in names.items():
        known = (step, done) in (("POST record", False), ("PATCH record", True))
        assert is_loading(await two.load(left, name, f"key-of-{name}"), replayed=known)
        assert is_loading(await two.load(left, name, f"key-of-{name}"), replayed=True)


async def test_who_takes_a_key_over_may_die_too(two: TwoRouters) -> None:
    """The claim of the second is a claim as the first one's was."""
    await two.add(name := "twice-dead")
    for dying, left in (two.both, two.both[::-1]):
        hold = two.hold("PATCH scale", done=False)
        asking = asyncio.create_task(two.load(dying, name, "key-of-two"))
        await hold.until_reached()
        await killed(two, dying, asking)
        dying.start_again()
        assert is_in_progress(await two.load(left, name, "key-of-two"))
        two.let_claims_end()
        await two.until_ready(dying)
    assert two.replicas[name] == [0]
    assert is_loading(await two.load(two.a, name, "key-of-two"))
    assert is_loading(await two.load(two.b, name, "key-of-two"), replayed=True)
    assert two.loaded_once(name)


async def test_one_key_at_both_is_carried_out_once(two: TwoRouters) -> None:
    await two.add(name := "together")
    for number in range(20):
        both = [two.load(router, name, f"together-{number}") for router in two.both]
        told = await asyncio.gather(*both)
        (first,) = [t for t in told if "Idempotent-Replayed" not in t.headers and t.status == 202]
        (other,) = [t for t in told if t is not first]
        assert is_in_progress(other) if other.status == 409 else other.raw == first.raw
        for router in two.both:
            again = await two.load(router, name, f"together-{number}")
            assert is_loading(again, replayed=True) and again.raw == first.raw
    assert two.loaded_once(name)


async def test_a_call_waits_at_one_for_what_the_other_loads(two: TwoRouters) -> None:
    await two.add(name := "elsewhere")
    assert is_loading(await two.load(two.b, name))
    waiting = asyncio.create_task(two.chat(two.a, name))
    await two.until_demanded(name, two.a)
    two.become(name, "loading")
    await two.agreed(name, "loading")
    assert not waiting.done()
    two.become(name, "loaded")
    told = await waiting
    assert (told.status, told.json["result"]["text"]) == (200, "hello")
    assert two.loaded_once(name)
    assert two.steps.count("PATCH scale") == 1
    await two.agreed(name, "ready")


async def test_calls_at_both_make_one_load(two: TwoRouters) -> None:
    await two.add(name := "crowd")
    waiting = [asyncio.create_task(two.chat(r, name)) for r in two.both for _ in range(5)]
    await two.until_wanted(name)
    two.become(name, "loaded")
    assert [told.status for told in await asyncio.gather(*waiting)] == [200] * 10
    assert two.loaded_once(name)


@pytest.mark.parametrize("done", [False, True])
async def test_callers_of_a_killed_router_are_not_the_others(done: bool, two: TwoRouters) -> None:
    """It dies while callers wait, before or after its load is done; the other serves the next."""
    await two.add(name := f"waited-for-{done}".lower())
    hold = two.hold("PATCH scale", done=done)
    lost = [asyncio.create_task(two.chat(two.a, name)) for _ in range(3)]
    await hold.until_reached()
    await two.until_demanded(name, two.a)
    await killed(two, two.a, *lost)
    waiting = asyncio.create_task(two.chat(two.b, name))
    await two.until_demanded(name, two.b)
    await two.until_wanted(name)
    two.become(name, "loaded")
    told = await waiting
    assert (told.status, told.json["result"]["text"]) == (200, "hello")
    assert two.loaded_once(name)
    two.a.start_again()
    await two.until_ready(two.a)
    await two.agreed(name, "ready")
