"""Sizes of clips, and which floats are samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_server.contract.parts import Clip
from pumas_server.media.pcm import check_samples, check_size, clip_bytes
from pumas_server.media.rules import Fault, Rule
from pumas_server.media.stopping import SLICE, Stopped
from support.media_files import clip


def never() -> None:
    """Nobody stops it."""


def floats(*samples: float) -> bytes:
    return np.array(samples, dtype="<f4").tobytes()


@pytest.mark.parametrize(
    ("encoding", "channels", "size"),
    [("pcm_s16le", 1, 6), ("pcm_s16le", 2, 12), ("pcm_f32le", 1, 12), ("pcm_f32le", 2, 24)],
)
def test_the_size_follows_from_the_numbers(encoding: str, channels: int, size: int) -> None:
    record = Clip.model_validate(clip(bytes(4), encoding, channels=channels, count=3))
    assert clip_bytes(record) == size
    check_size(record, size)
    for other in (size - 1, size + 1):
        with pytest.raises(Fault) as caught:
            check_size(record, other)
        assert caught.value.rule is Rule.CLIP_BYTES
        assert f"holds {other} bytes" in caught.value.words
        assert caught.value.words.endswith(f"are {size}")


@given(st.lists(st.floats(width=32), min_size=1, max_size=8))
def test_samples_are_the_finite_ones_within_one(samples: list[float]) -> None:
    sound = all(-1 <= sample <= 1 for sample in samples)
    try:
        check_samples(floats(*samples), never)
    except Fault as fault:
        assert not sound
        first = next(s for s in samples if not -1 <= s <= 1)
        assert fault.rule is (Rule.CLIP_RANGE if abs(first) < float("inf") else Rule.CLIP_FINITE)
    else:
        assert sound


@pytest.mark.parametrize("at", [0, SLICE // 4 - 1, SLICE // 4, SLICE // 4 + 1])
def test_names_the_sample(at: int) -> None:
    samples = [0.25] * (SLICE // 4 + 2)
    samples[at] = 1.5
    with pytest.raises(Fault) as caught:
        check_samples(floats(*samples), never)
    assert f"number {at}: 1.5" in caught.value.words


def test_stops_when_told() -> None:
    def stop() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        check_samples(floats(0), stop)
