"""Projection of reranking: every document scored once, most relevant first (*Endpoints*)."""

from __future__ import annotations

from pumas_server.contract.results import Relevance, RelevanceResult
from pumas_server.provider.answers import finite, incoherent, input_tokens, is_index, read_answer


def project_relevance(raw: bytes, count: int, top_n: int | None) -> RelevanceResult:
    """Scores of `count` documents, ties in document order, cut to `top_n`.

    Raises `ContractError`. The cut is made here, so that the provider has to score all of them.
    """
    answer = read_answer(raw)
    results = answer.get("results")
    if not isinstance(results, list):
        incoherent("gave no list of results")
    scores: dict[int, float] = {}
    for result in results:
        if not isinstance(result, dict):
            incoherent("gave a result that is not an object")
        index = result.get("index")
        if not is_index(index) or not 0 <= index < count:
            incoherent("scored a document that was not sent")
        if index in scores:
            incoherent(f"scored document {index} twice")
        scores[index] = finite(result.get("relevance_score"), "a score")
    if len(scores) != count:
        incoherent(f"scored {len(scores)} of {count} documents")
    order = sorted(scores, key=lambda index: (-scores[index], index))
    return RelevanceResult(
        [Relevance(index, scores[index]) for index in order[:top_n]],
        input_tokens(answer, "prompt_tokens", "total_tokens"),
    )
