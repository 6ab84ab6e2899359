"""Which pod a call goes to: the least busy, in turns; no pod idles while another has two calls."""

from __future__ import annotations

from collections import Counter, deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_server.router import balance as balance_module
from pumas_server.router.balance import Balance
from pumas_server.router.catalog_row import Identity, Target
from pumas_server.router.source import Endpoint

PODS = st.integers(1, 9)
SALTS = st.integers(0, 2**32 - 1)


def target(name: str) -> Target:
    url = f"http://{name}:8080"
    return Target(Identity("m", "h", name, "b"), Endpoint(name, url, None, True), 32)


def targets(count: int) -> list[Target]:
    return [target(f"pod-{index}") for index in range(count)]


class Calls:
    """Calls in flight at pods that a balance chose."""

    def __init__(self, pods: list[Target], salt: int) -> None:
        self.pods = pods
        self.balance = Balance(salt)
        self.busy: Counter[str] = Counter()
        self.took: list[str] = []

    def begin(self) -> str:
        url = self.balance.order(self.pods, self.busy)[0].endpoint.url
        self.balance.took(url)
        self.busy[url] += 1
        self.took.append(url)
        return url

    def end(self, url: str) -> None:
        self.busy[url] -= 1


@given(PODS, SALTS)
def test_so_many_calls_as_pods_get_one_each(count: int, salt: int) -> None:
    calls = Calls(targets(count), salt)
    for rounds in range(1, 4):
        for _ in range(count):
            calls.begin()
        assert set(calls.busy.values()) == {rounds}


@given(PODS, SALTS, st.integers(1, 30), st.integers(0, 200))
def test_with_calls_of_equal_length_no_pod_is_idle_while_another_has_two(
    count: int, salt: int, at_once: int, further: int
) -> None:
    """First in, first out, at any number of callers: loads differ by one at the most."""
    calls = Calls(targets(count), salt)
    running = deque(calls.begin() for _ in range(at_once))
    for _ in range(further):
        calls.end(running.popleft())
        running.append(calls.begin())
        loads = [calls.busy[pod.endpoint.url] for pod in calls.pods]
        assert max(loads) - min(loads) <= 1


@given(PODS, SALTS, st.lists(st.integers(0, 100), max_size=200))
def test_with_calls_of_any_length_none_is_sent_to_a_busier_pod(
    count: int, salt: int, ends: list[int]
) -> None:
    calls = Calls(targets(count), salt)
    running: list[str] = []
    for end in ends:
        least = min(calls.busy[pod.endpoint.url] for pod in calls.pods)
        url = calls.begin()
        assert calls.busy[url] == least + 1
        running.append(url)
        while running and end % (len(running) + 1) == 0:
            calls.end(running.pop(end % len(running)))
            end //= 2
            if end == 0:
                break


@given(PODS, SALTS)
def test_idle_pods_take_turns(count: int, salt: int) -> None:
    calls = Calls(targets(count), salt)
    for _ in range(3 * count):
        calls.end(calls.begin())
    first = calls.took[:count]
    assert len(set(first)) == count
    assert calls.took == first * 3


def test_a_pod_that_is_new_comes_first_and_then_in_its_turn() -> None:
    calls = Calls(targets(2), 1)
    for _ in range(5):
        calls.end(calls.begin())
    calls.pods.append(target("new"))
    for _ in range(4):
        calls.end(calls.begin())
    assert calls.took[5] == "http://new:8080"
    assert Counter(calls.took[5:]) == {"http://new:8080": 2} | dict.fromkeys(calls.took[:2], 1)


def test_routers_begin_with_different_pods() -> None:
    firsts = {Calls(targets(4), salt).begin() for salt in range(0, 2**32, 2**26)}
    assert len(firsts) == 4


def test_pods_that_went_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balance_module, "_REMEMBERED", 10)
    balance = Balance(0)
    for index in range(100):
        balance.took(f"u{index}")
    assert list(balance._turns) == [f"u{index}" for index in range(90, 100)]
