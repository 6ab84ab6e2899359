"""What file descriptors are enough for, and that they are asked for."""

from __future__ import annotations

import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_server.router import file_descriptors
from pumas_server.router.connections import MAX_BEYOND
from pumas_server.router.file_descriptors import Shares, have_descriptors, share_out, wanted


@given(st.integers(1, 1_000_000), st.integers(1, 100_000))
def test_what_is_wanted_is_enough(connections: int, upstream: int) -> None:
    assert share_out(wanted(connections, upstream), connections, upstream).connections == (
        connections
    )


@given(st.integers(512, 2_000_000), st.integers(1, 1_000_000), st.integers(1, 100_000))
def test_all_that_may_be_open_has_a_descriptor(
    descriptors: int, connections: int, upstream: int
) -> None:
    """Also when every open connection has a call in flight, and a whole queue is accepted."""
    shares = share_out(descriptors, connections, upstream)
    calls = min(upstream, shares.connections)
    assert shares.connections + calls + shares.backlog + MAX_BEYOND + 64 <= descriptors
    assert 1 <= shares.connections <= connections


@pytest.mark.parametrize(
    ("descriptors", "shares"),
    [
        (1_048_576, Shares(16_384, 2048)),
        (1024, Shares(352, 128)),
        (100, Shares(16, 16)),
    ],
)
def test_table(descriptors: int, shares: Shares) -> None:
    assert share_out(descriptors, 16_384, 1024) == shares


@pytest.mark.parametrize(
    ("limits", "count", "has", "asked"),
    [
        ((1024, 4096), 2000, 2000, [2000]),
        ((1024, 4096), 9000, 4096, [4096]),
        ((1024, resource.RLIM_INFINITY), 9000, 9000, [9000]),
        ((resource.RLIM_INFINITY, resource.RLIM_INFINITY), 9000, 9000, []),
        ((9000, 9000), 2000, 2000, []),
        ((1024, 1024), 2000, 1024, []),
    ],
)
def test_the_soft_limit_is_raised_as_far_as_needed(
    monkeypatch: pytest.MonkeyPatch,
    limits: tuple[int, int],
    count: int,
    has: int,
    asked: list[int],
) -> None:
    raised: list[int] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: raised.append(pair[0]))
    assert have_descriptors(count) == has
    assert raised == asked


def test_a_kernel_that_does_not_want_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int, pair: tuple[int, int]) -> None:
        raise ValueError

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(file_descriptors.resource, "setrlimit", refuse)
    assert have_descriptors(2000) == 256
