"""The header is what readers expect, byte by byte."""

from __future__ import annotations

import struct
import wave
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_server.contract.parts import Clip
from pumas_server.media.wav import build_header
from support.media_files import clip


def header_of(samples: bytes, encoding: str, **numbers: int) -> bytes:
    return build_header(Clip.model_validate(clip(samples, encoding, **numbers)))


def test_of_16_bit_samples() -> None:
    assert header_of(bytes(12), "pcm_s16le", channels=2, rate=44_100) == b"".join(
        [
            struct.pack("<4sI4s", b"RIFF", 46 + 12, b"WAVE"),
            struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 2, 44_100, 176_400, 4, 16),
            struct.pack("<4sIH", b"JUNK", 2, 0),
            struct.pack("<4sI", b"data", 12),
        ]
    )


def test_of_float_samples() -> None:
    assert header_of(bytes(24), "pcm_f32le", channels=2, rate=8000) == b"".join(
        [
            struct.pack("<4sI4s", b"RIFF", 64 + 24, b"WAVE"),
            struct.pack("<4sIHHIIHHH", b"fmt ", 18, 3, 2, 8000, 64_000, 8, 32, 0),
            struct.pack("<4sII", b"fact", 4, 3),
            struct.pack("<4sI6x", b"JUNK", 6),
            struct.pack("<4sI", b"data", 24),
        ]
    )


@given(st.binary(min_size=4, max_size=64), st.integers(8000, 192_000), st.integers(1, 2))
def test_readers_find_the_samples(samples: bytes, rate: int, channels: int) -> None:
    samples = samples[: len(samples) // 4 * 4]
    file = header_of(samples, "pcm_s16le", channels=channels, rate=rate) + samples
    with wave.open(BytesIO(file)) as read:
        assert (read.getframerate(), read.getnchannels(), read.getsampwidth()) == (
            rate,
            channels,
            2,
        )
        assert read.readframes(read.getnframes()) == samples


@pytest.mark.parametrize("encoding", ["pcm_s16le", "pcm_f32le"])
@pytest.mark.parametrize("channels", [1, 2])
def test_its_base64_needs_no_padding_and_its_sizes_fit(encoding: str, channels: int) -> None:
    samples = bytes(8 * channels)
    header = header_of(samples, encoding, channels=channels)
    assert len(header) % 3 == 0
    assert int.from_bytes(header[4:8], "little") == len(header) + len(samples) - 8
    assert int.from_bytes(header[-4:], "little") == len(samples)
