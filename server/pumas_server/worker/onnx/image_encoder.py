"""Runs a graph over images: decoded and computed a few at a time, so that memory stays flat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pumas_server.worker.onnx.image_pixels import image_pixels, read_image
from pumas_server.worker.onnx.image_recipe import ImageRecipe
from pumas_server.worker.onnx.kind import IMAGE_VECTORS, MASK, PIXELS, TOKENS
from pumas_server.worker.onnx.pooling import Floats
from pumas_server.worker.onnx.session import Array, Session

BATCH_IMAGES = 8
_FLOATS = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
_INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


class ImageEncoder:
    """A graph that takes pixels."""

    def __init__(self, session: Session, recipe: ImageRecipe, padding: int) -> None:
        self._session = session
        self._recipe = recipe
        self._padding = padding
        self._type = _FLOATS[session.inputs[PIXELS]]
        height, width = recipe.shape or (1, 1)
        self.blank: Array = np.zeros((1, 3, height, width), self._type)
        """One image without anything on it."""

    def width(self) -> int:
        """Values of one vector; runs the graph once."""
        return int(self._vectors(self.blank).shape[1])

    def run(self, urls: Sequence[str], names: Sequence[str]) -> Floats:
        """A vector for each image, in order. Raises `Unfit`, by name, and `EngineFault`."""
        rows = []
        for begin in range(0, len(urls), BATCH_IMAGES):
            batch = range(begin, min(begin + BATCH_IMAGES, len(urls)))
            pixels = [
                image_pixels(read_image(urls[n], names[n]), self._recipe, names[n]) for n in batch
            ]
            rows.append(self._vectors(np.stack(pixels).astype(self._type, copy=False)))
        return np.concatenate(rows)

    def _vectors(self, pixels: Array) -> Floats:
        feeds: dict[str, Array] = {}
        for name, kind in self._session.inputs.items():
            if name == PIXELS:
                feeds[name] = pixels
            else:  # of the side for texts, which the images' output ignores
                fill = 1 if name == MASK else self._padding if name == TOKENS else 0
                feeds[name] = np.full((1, 1), fill, _INTEGERS[kind])
        (vectors,) = self._session.run([IMAGE_VECTORS], feeds)
        return vectors.astype(np.float32, copy=False)
