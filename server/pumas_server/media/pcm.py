"""Raw PCM: as many bytes as its numbers say, and floats that are samples (*Modalities*)."""

from __future__ import annotations

import numpy as np

from pumas_server.contract.parts import Clip
from pumas_server.media.rules import Fault, Rule
from pumas_server.media.stopping import SLICE, Checkpoint

#: Bytes of one sample.
WIDTHS = {"pcm_s16le": 2, "pcm_f32le": 4}


def clip_bytes(clip: Clip) -> int:
    """Bytes that the numbers of a clip stand for; `sample_count` counts frames."""
    return clip.sample_count * clip.channels * WIDTHS[clip.encoding]


def check_size(clip: Clip, size: int) -> None:
    """Raise `Fault` when `size`, the decoded bytes, is not what the numbers of the clip say."""
    if size != clip_bytes(clip):
        raise Fault(
            Rule.CLIP_BYTES,
            f"holds {size} bytes; {clip.sample_count} samples in {clip.channels} channels of"
            f" {clip.encoding} are {clip_bytes(clip)}",
        )


def check_samples(data: bytes | bytearray, checkpoint: Checkpoint) -> None:
    """Check float samples; any 16 bits are a sample. Raises `Fault`, and what `checkpoint` does."""
    samples = np.frombuffer(data, dtype="<f4")
    step = SLICE // samples.itemsize
    for begin in range(0, len(samples), step):
        checkpoint()
        block = samples[begin : begin + step]
        # NaN compares false with everything, so it is not within either.
        within = np.abs(block) <= 1
        if not within.all():
            at = int(np.argmin(within))
            raise _out_of_range(begin + at, float(block[at]))


def _out_of_range(at: int, sample: float) -> Fault:
    if not np.isfinite(sample):
        return Fault(Rule.CLIP_FINITE, f"has a sample that is not finite (number {at})")
    return Fault(Rule.CLIP_RANGE, f"has a sample outside -1 and 1 (number {at}: {sample:g})")
