"""Runs a graph over texts: tokens in batches of like length, the wanted output for each input."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pumas_server.worker.onnx.batches import (
    CPU_BATCH_TOKENS,
    DEVICE_BATCH_TOKENS,
    select_batches,
)
from pumas_server.worker.onnx.device import CPU
from pumas_server.worker.onnx.kind import MASK, PIXELS, TOKENS
from pumas_server.worker.onnx.pooling import Floats, Mask
from pumas_server.worker.onnx.session import Array, Session
from pumas_server.worker.onnx.text_tokens import Tokens

_TYPES = "token_type_ids"
_POSITIONS = "position_ids"


class TextEncoder:
    """A graph that takes token numbers."""

    def __init__(self, session: Session, output: str, padding: int, image: Array | None) -> None:
        """`image` is fed where the same graph asks for one, which the texts' output ignores."""
        self._session = session
        self._output = output
        self._padding = padding
        self._image = image

    def run(self, inputs: Sequence[Tokens], finish: Callable[[Array, Mask], Floats]) -> Floats:
        """One row for each input, in order: `finish` makes them of a batch's output and mask.

        Raises `EngineFault`.
        """
        rows: list[Floats] = [_NOTHING] * len(inputs)
        lengths = [len(one.ids) for one in inputs]
        limit = CPU_BATCH_TOKENS if self._session.device == CPU else DEVICE_BATCH_TOKENS
        for batch in select_batches(lengths, limit, equal=MASK not in self._session.inputs):
            feeds, mask = self._feeds([inputs[position] for position in batch])
            (output,) = self._session.run([self._output], feeds)
            finished = finish(output.astype(np.float32, copy=False), mask)
            for position, row in zip(batch, finished, strict=True):
                rows[position] = row
        return np.stack(rows)

    def _feeds(self, batch: Sequence[Tokens]) -> tuple[dict[str, Array], Mask]:
        longest = max(len(one.ids) for one in batch)
        ids = np.full((len(batch), longest), self._padding, np.int64)
        types = np.zeros_like(ids)
        mask = np.zeros_like(ids)
        for row, one in enumerate(batch):
            ids[row, : len(one.ids)] = one.ids
            types[row, : len(one.ids)] = one.types
            mask[row, : len(one.ids)] = 1
        given = {TOKENS: ids, MASK: mask, _TYPES: types}
        given[_POSITIONS] = np.broadcast_to(np.arange(longest, dtype=np.int64), ids.shape)
        feeds: dict[str, Array] = {}
        for name, kind in self._session.inputs.items():
            if name == PIXELS and self._image is not None:
                feeds[name] = self._image
            else:
                feeds[name] = given[name].astype(_INTEGERS[kind], copy=False)
        return feeds, mask


_INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_NOTHING: Floats = np.zeros(0, np.float32)
