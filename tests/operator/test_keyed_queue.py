"""The queue of keys: random interleavings of whoever adds, takes and finishes."""

from __future__ import annotations

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumas_operator import keyed_queue
from pumas_operator.keyed_queue import LONGEST_PAUSE_SECONDS, KeyedQueue
from support.eventually import eventually


async def test_keys_come_in_the_order_in_which_they_were_added() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    for key in "abcab":
        queue.add(key)
    assert [await queue.take() for _ in range(len(queue))] == ["a", "b", "c"]


async def test_whoever_waits_gets_the_next() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    taking = [asyncio.create_task(queue.take()) for _ in range(2)]
    await asyncio.sleep(0)
    queue.add("a")
    queue.add("b")
    assert sorted(await asyncio.gather(*taking)) == ["a", "b"]


async def test_what_is_added_meanwhile_comes_back_when_it_is_done() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add("a")
    assert await queue.take() == "a"
    queue.add("a")
    queue.add("a")
    queue.add("b")
    assert await queue.take() == "b", "a is being worked on"
    queue.done("a", None)
    assert await queue.take() == "a"
    queue.done("a", None)
    queue.done("b", None)
    assert len(queue) == 0


async def test_what_is_done_is_looked_at_again_after_its_time() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add("a")
    await queue.take()
    queue.done("a", 0.01)
    assert len(queue) == 0
    assert await asyncio.wait_for(queue.take(), 5) == "a"


async def test_of_two_times_the_sooner_counts() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add_later("a", 3600)
    queue.add_later("a", 0.01)
    queue.add_later("a", 3600)
    assert await asyncio.wait_for(queue.take(), 5) == "a"
    queue.close()


async def test_a_reason_to_look_at_once_takes_the_later_ones_place() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add_later("a", 0.02)
    queue.add("a")
    await queue.take()
    queue.done("a", None)
    await asyncio.sleep(0.03)  # were there a timer still, it would have fired
    assert len(queue) == 0


async def test_what_fails_comes_back_each_time_later_and_at_last_each_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(random, "uniform", lambda least, most: most)
    queue: KeyedQueue[str] = KeyedQueue()
    pauses = []
    for _ in range(12):
        queue.add("a")
        await queue.take()
        pauses.append(queue.failed("a"))
    assert pauses[:4] == [0.5, 1.0, 2.0, 4.0]
    assert pauses[-1] == LONGEST_PAUSE_SECONDS
    queue.add("a")
    await queue.take()
    queue.done("a", None)
    queue.add("a")
    await queue.take()
    assert queue.failed("a") == 0.5, "what went well once begins anew"
    queue.close()


async def test_a_failure_of_what_was_added_meanwhile_is_tried_at_once() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add("a")
    await queue.take()
    queue.add("a")
    assert queue.failed("a") == 0.0
    assert await asyncio.wait_for(queue.take(), 5) == "a"
    queue.close()


async def test_what_failed_can_be_hastened_and_nothing_else() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    for key in ("a", "b"):
        queue.add(key)
        await queue.take()
    queue.failed("a")
    queue.done("b", 60.0)
    queue.hasten()
    assert await asyncio.wait_for(queue.take(), 0.1) == "a"
    assert len(queue) == 1
    queue.close()


async def test_after_closing_nothing_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_queue, "FIRST_PAUSE_SECONDS", 0.01)
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add("a")
    await queue.take()
    queue.failed("a")
    queue.close()
    await asyncio.sleep(0.03)  # were there a timer still, it would have fired
    assert len(queue) == 0


ADD = st.tuples(st.just("add"), st.sampled_from("abcd"))
LATER = st.tuples(st.just("later"), st.sampled_from("abcd"))
WORK = st.tuples(st.sampled_from(["step", "fail"]), st.just(""))


@given(st.lists(st.one_of(ADD, LATER, WORK), max_size=40), st.integers(1, 4))
@settings(deadline=None, max_examples=60)
def test_none_is_lost_and_none_is_worked_on_twice_at_once(
    script: list[tuple[str, str]], workers: int
) -> None:
    """Every add is followed by a whole round of work; work on one key never overlaps."""

    async def run(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(keyed_queue, "FIRST_PAUSE_SECONDS", 0.0)
        queue: KeyedQueue[str] = KeyedQueue()
        running: set[str] = set()
        asked = dict.fromkeys("abcd", 0)
        seen = dict.fromkeys("abcd", 0)
        begun = 0
        gate, failing = asyncio.Semaphore(0), [0]

        async def work() -> None:
            nonlocal begun
            while True:
                key = await queue.take()
                assert key not in running
                running.add(key)
                begun += 1
                at = asked[key]
                await gate.acquire()
                running.discard(key)
                if failing[0]:
                    failing[0] -= 1
                    queue.failed(key)
                else:
                    seen[key] = at
                    queue.done(key, None)

        tasks = [asyncio.create_task(work()) for _ in range(workers)]
        for verb, key in script:
            if verb in ("add", "later"):
                asked[key] += 1
                queue.add(key) if verb == "add" else queue.add_later(key, 0.0)
            else:
                failing[0] += verb == "fail"
                gate.release()
            await asyncio.sleep(0)
        failing[0] = 0
        for _ in range(200):
            gate.release()
        await eventually(lambda: seen == asked, "a look at all that was asked for")
        total = sum(asked.values())
        assert begun <= 2 * total + sum(verb == "fail" for verb, _ in script)
        assert not any(task.done() for task in tasks), "an overlap ends a worker"
        for task in tasks:
            task.cancel()
        queue.close()

    with pytest.MonkeyPatch.context() as patch:
        asyncio.run(run(patch))
