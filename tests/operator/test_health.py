"""`/healthz`: 503 only where a restart would help."""

from __future__ import annotations

import aiohttp
import pytest

from pumas_operator.health import SILENCE_SECONDS, Health


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_one_that_waits_to_lead_is_well_however_long(clock: Clock) -> None:
    health = Health(clock)
    clock.now += 10 * SILENCE_SECONDS
    assert health.fault() is None
    health.leads()
    assert health.fault() is None, "it has renewed nothing yet"


def test_a_renewal_that_no_event_follows_is_a_fault(clock: Clock) -> None:
    health = Health(clock)
    health.leads()
    health.renewed_at = clock
    clock.now += SILENCE_SECONDS
    assert health.fault() is None
    clock.now += 1
    assert health.fault() == "no event for 61 s though the Lease was renewed"
    health.pulse()
    assert health.fault() is None


def test_a_leader_that_cannot_renew_is_not_restarted(clock: Clock) -> None:
    """The API server is away: there are no events because nothing happens."""
    health = Health(clock)
    health.leads()
    renewed = clock.now
    health.renewed_at = lambda: renewed
    clock.now += 10 * SILENCE_SECONDS
    assert health.fault() is None


def test_the_time_before_it_led_does_not_count(clock: Clock) -> None:
    health = Health(clock)
    clock.now += 10 * SILENCE_SECONDS
    health.leads()
    health.renewed_at = clock
    assert health.fault() is None


async def test_the_answer(clock: Clock, unused_tcp_port: int) -> None:
    health = Health(clock)
    url = f"http://127.0.0.1:{unused_tcp_port}/healthz"
    async with health.serving(unused_tcp_port), aiohttp.ClientSession() as session:
        async with session.get(url) as answer:
            assert (answer.status, await answer.text()) == (200, "ok")
        health.leads()
        health.renewed_at = clock
        clock.now += SILENCE_SECONDS + 1
        async with session.get(url) as answer:
            assert answer.status == 503
            assert "no event for 61 s" in await answer.text()
