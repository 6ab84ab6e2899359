"""An embedder of texts and images into one space: both sides' vectors can be compared.

Its two sides are one graph with two inputs, or two graphs. An input of several parts has the mean
of the parts' unit vectors, at unit length again; one of a single text is that text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pumas_server.worker.header_fault import no_model
from pumas_server.worker.onnx.answer import embeddings_answer
from pumas_server.worker.onnx.embedder import EMBEDDINGS
from pumas_server.worker.onnx.embedding_request import (
    ImagePart,
    Part,
    TextPart,
    build_limits,
    read_embedding_request,
)
from pumas_server.worker.onnx.facts import embedding_width
from pumas_server.worker.onnx.folder import ModelFolder
from pumas_server.worker.onnx.image_encoder import ImageEncoder
from pumas_server.worker.onnx.kind import TEXT_VECTORS
from pumas_server.worker.onnx.pooling import Floats, Mask, unit
from pumas_server.worker.onnx.served import Served
from pumas_server.worker.onnx.session import Array, Session
from pumas_server.worker.onnx.text_encoder import TextEncoder
from pumas_server.worker.onnx.text_tokens import TextTokens, fetch_tokens


def load_shared_space(root: Path, folder: ModelFolder, device: str, threads: int) -> Served:
    """Load the model. Raises `HeaderFault`, `EngineFault`, `OSError`."""
    assert folder.image is not None
    tokens = fetch_tokens(root, folder)
    session = Session(root / folder.weights, device, threads)
    image_session = session
    if folder.image_weights != folder.weights:
        image_session = Session(root / folder.image_weights, device, threads)
    images = ImageEncoder(image_session, folder.image, tokens.padding)
    texts = TextEncoder(session, TEXT_VECTORS, tokens.padding, images.blank)
    space = _SharedSpace(tokens, texts, images)
    space.width = embedding_width(folder) or space.text_vectors(["a"])[0].shape[1]
    if (other := images.width()) != space.width:
        raise no_model(
            f"the model's texts have vectors of {space.width} values, its images of {other}"
        )
    return Served(
        handlers={EMBEDDINGS: space.answer},
        checks={EMBEDDINGS: space.check},
        input_modalities=("text", "image"),
        output_modalities=("vector",),
        device=session.device,
        limits=build_limits(space.width, folder.context_tokens),
        embedding_width=space.width,
        context_tokens=folder.context_tokens,
    )


class _SharedSpace:
    def __init__(self, tokens: TextTokens, texts: TextEncoder, images: ImageEncoder) -> None:
        self._tokens = tokens
        self._texts = texts
        self._images = images
        self.width = 0

    def check(self, body: dict[str, object]) -> None:
        request = read_embedding_request(body, self.width)
        parts = [part for item in request.inputs for part in item]
        self._tokens.encode([part.text for part in parts if isinstance(part, TextPart)], "text")

    def answer(self, body: dict[str, object]) -> bytes:
        request = read_embedding_request(body, self.width)
        parts = [part for item in request.inputs for part in item]
        vectors, count = self._part_vectors(parts, _names(request.inputs))
        means = []
        begin = 0
        for item in request.inputs:
            means.append(vectors[begin : begin + len(item)].mean(axis=0))
            begin += len(item)
        return embeddings_answer(
            body.get("model"),
            unit(np.stack(means), request.dimensions),
            count,
            as_base64=request.base64,
        )

    def text_vectors(self, texts: list[str]) -> tuple[Floats, int]:
        """The vectors of texts, and how many tokens these have."""
        inputs = self._tokens.encode(texts, "text")
        return self._texts.run(inputs, _as_it_is), sum(len(one.ids) for one in inputs)

    def _part_vectors(self, parts: Sequence[Part], names: Sequence[str]) -> tuple[Floats, int]:
        """A unit vector for each part, and the tokens of all texts."""
        vectors = np.zeros((len(parts), self.width), np.float32)
        texts = [n for n, part in enumerate(parts) if isinstance(part, TextPart)]
        images = [n for n, part in enumerate(parts) if isinstance(part, ImagePart)]
        count = 0
        if texts:
            wanted = [part.text for part in parts if isinstance(part, TextPart)]
            vectors[texts], count = self.text_vectors(wanted)
        if images:
            urls = [part.url for part in parts if isinstance(part, ImagePart)]
            vectors[images] = self._images.run(urls, [names[n] for n in images])
        return unit(vectors), count


def _names(inputs: Sequence[Sequence[Part]]) -> list[str]:
    """What each part is called in a refusal."""
    return [
        f"input[{position}].content[{number}]"
        for position, item in enumerate(inputs)
        for number in range(len(item))
    ]


def _as_it_is(output: Array, mask: Mask) -> Floats:
    vectors: Floats = output
    return vectors
