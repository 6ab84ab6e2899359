"""A sentence embedder: texts in, unit vectors out, pooled as the model's own config says."""

from __future__ import annotations

from pathlib import Path

from pumas_server.worker.header_fault import no_model
from pumas_server.worker.onnx.answer import embeddings_answer
from pumas_server.worker.onnx.embedding_request import (
    EmbeddingRequest,
    Part,
    TextPart,
    build_limits,
    read_embedding_request,
)
from pumas_server.worker.onnx.facts import embedding_width
from pumas_server.worker.onnx.folder import ModelFolder
from pumas_server.worker.onnx.kind import sentence_output, token_output
from pumas_server.worker.onnx.norm_weights import fetch_layer_norm
from pumas_server.worker.onnx.pooling import Floats, LayerNorm, Mask, pool, unit
from pumas_server.worker.onnx.recipe import Pooling
from pumas_server.worker.onnx.served import Served, Unfit
from pumas_server.worker.onnx.session import Array, Session
from pumas_server.worker.onnx.text_encoder import TextEncoder
from pumas_server.worker.onnx.text_tokens import TextTokens, fetch_tokens

EMBEDDINGS = "/v1/embeddings"


def load_embedder(root: Path, folder: ModelFolder, device: str, threads: int) -> Served:
    """Load the model. Raises `HeaderFault`, `EngineFault`, `OSError`."""
    norm = None
    width = embedding_width(folder)
    if folder.layer_norm is not None:
        norm = fetch_layer_norm(root / folder.layer_norm, width)
    tokens = fetch_tokens(root, folder)
    session = Session(root / folder.weights, device, threads)
    embedder = _Embedder(folder, session, tokens, norm)
    # The config may not know the width, and a graph need not say it: one call does.
    width = width or embedder.vectors(["a"])[0].shape[1]
    embedder.width = width
    return Served(
        handlers={EMBEDDINGS: embedder.answer},
        checks={EMBEDDINGS: embedder.check},
        input_modalities=("text",),
        output_modalities=("vector",),
        device=session.device,
        limits=build_limits(width, folder.context_tokens),
        embedding_width=width,
        context_tokens=folder.context_tokens,
    )


class _Embedder:
    def __init__(
        self, folder: ModelFolder, session: Session, tokens: TextTokens, norm: LayerNorm | None
    ) -> None:
        port = token_output(folder.graph)
        self._pooling: Pooling | None = None
        if port is not None:
            # Without a description of the chain the hub's own programs take the mean.
            self._pooling = folder.pooling or Pooling.MEAN
        else:
            port = sentence_output(folder.graph)
        if port is None:
            raise no_model("the model has no output with vectors")
        self._encoder = TextEncoder(session, port.name, tokens.padding, None)
        self._tokens = tokens
        self._norm = norm
        self.width = 0

    def check(self, body: dict[str, object]) -> None:
        self._tokens.encode(_texts(read_embedding_request(body, self.width)), "input")

    def answer(self, body: dict[str, object]) -> bytes:
        request = read_embedding_request(body, self.width)
        vectors, count = self.vectors(_texts(request))
        return embeddings_answer(
            body.get("model"), unit(vectors, request.dimensions), count, as_base64=request.base64
        )

    def vectors(self, texts: list[str]) -> tuple[Floats, int]:
        """A vector for each text, of any length, and how many tokens all texts have."""
        inputs = self._tokens.encode(texts, "input")
        count = sum(len(one.ids) for one in inputs)
        return self._encoder.run(inputs, self._finish), count

    def _finish(self, output: Array, mask: Mask) -> Floats:
        vectors: Floats = output if self._pooling is None else pool(output, mask, self._pooling)
        return vectors if self._norm is None else self._norm(vectors)


def _texts(request: EmbeddingRequest) -> list[str]:
    return [_text(item, position) for position, item in enumerate(request.inputs)]


def _text(item: tuple[Part, ...], position: int) -> str:
    """The text of an item: the parts' texts joined, as llama-server joins them."""
    texts = []
    for number, part in enumerate(item):
        if not isinstance(part, TextPart):
            raise Unfit(f"input[{position}].content[{number}] is an image; the model takes text")
        texts.append(part.text)
    return "".join(texts)
