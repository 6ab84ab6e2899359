"""Which inputs are computed together: those of like length, a bounded number of tokens. Pure.

A batch is as wide as its longest input, and what fills the others up is computed for nothing; its
memory grows with its size. So inputs are sorted by length and cut into batches of at most so many
tokens, padding included. Answers come back in the order of the inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

#: Tokens of one batch, padding included. On CPUs small batches lose nothing to calls and fit the
#: caches; 64 short texts in two took two thirds of the time of one. A device wants to be filled.
CPU_BATCH_TOKENS = 512
DEVICE_BATCH_TOKENS = 8192


def select_batches(lengths: Sequence[int], limit: int, *, equal: bool = False) -> list[list[int]]:
    """The inputs of each batch, by their positions in `lengths`, shortest first.

    An input that alone is beyond `limit` is a batch of its own. With `equal`, inputs of one batch
    all have one length: for graphs that cannot be told what is padding.
    """
    batches: list[list[int]] = []
    for position in sorted(range(len(lengths)), key=lambda position: lengths[position]):
        length = lengths[position]
        # Sorted: the newest is the longest, so that its length is the batch's.
        fits = batches and (len(batches[-1]) + 1) * length <= limit
        if fits and not (equal and lengths[batches[-1][0]] != length):
            batches[-1].append(position)
        else:
            batches.append([position])
    return batches
