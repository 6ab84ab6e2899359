"""A cross-encoder: a query with each document in, one score for each out.

The score is the model's own: the raw number of its one label, which orders documents and is no
probability. No sigmoid is put over it: the model's scale is what thresholds are chosen on.
"""

from __future__ import annotations

from pathlib import Path

from pumas_server.worker.onnx.answer import ranking_answer
from pumas_server.worker.onnx.embedding_request import build_limits, check_characters, check_count
from pumas_server.worker.onnx.folder import ModelFolder
from pumas_server.worker.onnx.kind import LOGITS
from pumas_server.worker.onnx.pooling import Floats, Mask
from pumas_server.worker.onnx.served import Limit, Served, Unfit
from pumas_server.worker.onnx.session import Array, Session
from pumas_server.worker.onnx.text_encoder import TextEncoder
from pumas_server.worker.onnx.text_tokens import TextTokens, fetch_tokens

RERANK = "/v1/rerank"


def load_reranker(root: Path, folder: ModelFolder, device: str, threads: int) -> Served:
    """Load the model. Raises `HeaderFault`, `EngineFault`, `OSError`."""
    tokens = fetch_tokens(root, folder)
    session = Session(root / folder.weights, device, threads)
    reranker = _Reranker(tokens, TextEncoder(session, LOGITS, tokens.padding, None))
    return Served(
        handlers={RERANK: reranker.answer},
        checks={RERANK: reranker.check},
        input_modalities=("text",),
        output_modalities=("json",),
        device=session.device,
        limits=_limits(folder.context_tokens),
        context_tokens=folder.context_tokens,
    )


def _limits(tokens: int) -> tuple[Limit, ...]:
    return tuple(limit for limit in build_limits(0, tokens) if limit.option != "dimensions")


class _Reranker:
    def __init__(self, tokens: TextTokens, encoder: TextEncoder) -> None:
        self._tokens = tokens
        self._encoder = encoder

    def check(self, body: dict[str, object]) -> None:
        query, documents, _ = _read(body)
        self._tokens.encode_pairs(query, documents, "documents")

    def answer(self, body: dict[str, object]) -> bytes:
        query, documents, best = _read(body)
        inputs = self._tokens.encode_pairs(query, documents, "documents")
        scores = self._encoder.run(inputs, _score)
        # Stable: documents of one score stay in their order.
        order = sorted(range(len(documents)), key=lambda index: -scores[index, 0])[:best]
        return ranking_answer(
            body.get("model"),
            [(index, scores[index, 0]) for index in order],
            sum(len(one.ids) for one in inputs),
        )


def _score(output: Array, mask: Mask) -> Floats:
    return output.reshape(len(mask), 1)


def _read(body: dict[str, object]) -> tuple[str, list[str], int | None]:
    """Query, documents, and how many results are wanted."""
    query, documents, best = body.get("query"), body.get("documents"), body.get("top_n")
    if not isinstance(query, str):
        raise Unfit('"query" must be provided')
    if not isinstance(documents, list) or not documents:
        raise Unfit('"documents" must be a non-empty string array')
    texts = [document for document in documents if isinstance(document, str)]
    if len(texts) != len(documents):
        raise Unfit('"documents" must be a non-empty string array')
    if best is not None and (type(best) is not int or best < 1):
        raise Unfit('"top_n" must be a number of at least 1')
    check_count(len(texts))
    check_characters([query, *texts])
    return query, texts, best if isinstance(best, int) else None
