"""Relevance: every document scored once, most relevant first, ties in document order."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumas_server.contract.errors import Code, ContractError
from pumas_server.contract.results import Relevance, RelevanceResult
from pumas_server.provider.ranking import project_relevance


def scored(index: Any, score: Any, **members: Any) -> dict[str, Any]:
    return {"index": index, "relevance_score": score, **members}


def body(*results: Any, **members: Any) -> bytes:
    return json.dumps({"object": "list", "results": list(results), **members}).encode()


def order(result: RelevanceResult) -> list[tuple[int, float]]:
    return [(found.index, found.score) for found in result.results]


def refused(raw: bytes, count: int) -> str:
    with pytest.raises(ContractError) as caught:
        project_relevance(raw, count, None)
    assert caught.value.code is Code.INVALID_PROVIDER_RESULT
    return caught.value.message.removeprefix("the provider ")


TIED = body(scored(1, 0.5), scored(2, 0.75), scored(0, 0.75), usage={"prompt_tokens": 40})


@pytest.mark.parametrize(
    ("top_n", "expected"),
    [
        (None, [(0, 0.75), (2, 0.75), (1, 0.5)]),
        (1, [(0, 0.75)]),
        (2, [(0, 0.75), (2, 0.75)]),
        (3, [(0, 0.75), (2, 0.75), (1, 0.5)]),
        (4_294_967_295, [(0, 0.75), (2, 0.75), (1, 0.5)]),
    ],
)
def test_case_86_sorted_with_ties_in_document_order_then_cut(
    top_n: int | None, expected: list[tuple[int, float]]
) -> None:
    result = project_relevance(TIED, 3, top_n)
    assert order(result) == expected
    assert result.input_tokens == 40


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 40, "total_tokens": 41}, 40),
        ({"total_tokens": 41}, 41),
        ({"prompt_tokens": 0}, 0),
        ({}, None),
        (None, None),
    ],
)
def test_the_input_tokens_are_the_providers(usage: Any, tokens: int | None) -> None:
    assert project_relevance(body(scored(0, 1), usage=usage), 1, None).input_tokens == tokens


def test_scores_keep_the_models_own_scale() -> None:
    raw = body(scored(0, -11.5, document={"text": "private"}), scored(1, 1e300), scored(2, 3))
    assert project_relevance(raw, 3, None) == RelevanceResult(
        [Relevance(1, 1e300), Relevance(2, 3.0), Relevance(0, -11.5)], None
    )


def test_zeros_of_either_sign_are_a_tie() -> None:
    raw = body(scored(2, 0.0), scored(1, -0.0), scored(0, 0))
    assert [index for index, _ in order(project_relevance(raw, 3, None))] == [0, 1, 2]


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b"{}", "gave no list of results"),
        (b'{"results":null}', "gave no list of results"),
        (b'{"results":{}}', "gave no list of results"),
        (body("a", "b"), "gave a result that is not an object"),
        (body(scored(0, 1), None), "gave a result that is not an object"),
        (body(), "scored 0 of 2 documents"),
        (body(scored(0, 1)), "scored 1 of 2 documents"),
        (body(scored(0, 1), scored(0, 1)), "scored document 0 twice"),
        (body(scored(0, 1), scored(1, 1), scored(1, 2)), "scored document 1 twice"),
        (body(scored(0, 1), scored(2, 1)), "scored a document that was not sent"),
        (body(scored(0, 1), scored(-1, 1)), "scored a document that was not sent"),
        (body(scored(0, 1), scored(10**30, 1)), "scored a document that was not sent"),
        (body(scored(0, 1), scored(True, 1)), "scored a document that was not sent"),
        (body(scored(False, 1), scored(1, 1)), "scored a document that was not sent"),
        (body(scored(0.0, 1), scored(1, 1)), "scored a document that was not sent"),
        (body(scored("0", 1), scored(1, 1)), "scored a document that was not sent"),
        (body(scored(None, 1), scored(1, 1)), "scored a document that was not sent"),
        (body({"relevance_score": 1}, scored(1, 1)), "scored a document that was not sent"),
        (body({"index": 0}, scored(1, 1)), "gave a score that is no number"),
        (body({"index": 0, "score": 1}, scored(1, 1)), "gave a score that is no number"),
        (body(scored(0, None), scored(1, 1)), "gave a score that is no number"),
        (body(scored(0, True), scored(1, 1)), "gave a score that is no number"),
        (body(scored(0, "1"), scored(1, 1)), "gave a score that is no number"),
        (body(scored(0, [1]), scored(1, 1)), "gave a score that is no number"),
        (body(scored(0, 10**400), scored(1, 1)), "gave a score that is not finite"),
        (body(scored(0, 2.5), scored(1, 1)).replace(b"2.5", b"1e999"),
         "gave a score that is not finite"),
        (body(scored(0, 2.5), scored(1, 1)).replace(b"2.5", b"-1e999"),
         "gave a score that is not finite"),
        # The bare list of another dialect.
        (json.dumps([scored(0, 1), scored(1, 1)]).encode(),
         "answered something that is not an object"),
    ],
)  # fmt: skip
def test_scores_that_are_not_coherent(raw: bytes, what: str) -> None:
    assert refused(raw, 2) == what


@settings(deadline=None, max_examples=30)
@given(
    scores=st.lists(st.sampled_from([-1.5, 0.0, 0.25, 1.0, 7.0]), min_size=1, max_size=8),
    shuffle=st.randoms(use_true_random=False),
    top_n=st.one_of(st.none(), st.integers(1, 9)),
)
def test_the_order_is_the_scores_however_the_provider_lists_them(
    scores: list[float], shuffle: random.Random, top_n: int | None
) -> None:
    results = [scored(index, score) for index, score in enumerate(scores)]
    shuffle.shuffle(results)
    found = order(project_relevance(body(*results), len(scores), top_n))
    assert len(found) == min(len(scores), top_n or len(scores))
    for (index, score), (next_index, next_score) in pairwise(found):
        assert score > next_score or (score == next_score and index < next_index)
    assert all(scores[index] == score for index, score in found)
    left_out = [s for i, s in enumerate(scores) if i not in {index for index, _ in found}]
    assert all(score <= found[-1][1] for score in left_out)


_json = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-2, 2), st.floats(), st.integers(10**308, 10**309),
        st.text(max_size=3),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["results", "index", "relevance_score", "error", "usage"]), inner,
            max_size=3,
        ),
    ),
    max_leaves=8,
)  # fmt: skip
_results = st.builds(scored, st.integers(0, 1), st.floats())


@settings(deadline=None, max_examples=40)
@given(
    answer=st.one_of(
        _json, st.fixed_dictionaries({"results": st.lists(st.one_of(_results, _json), max_size=3)})
    ),
    count=st.integers(1, 2),
)
def test_any_answer_is_a_result_or_an_error_of_the_contract(answer: Any, count: int) -> None:
    try:
        found = order(project_relevance(json.dumps(answer).encode(), count, None))
    except ContractError as error:
        assert error.code in (Code.INVALID_PROVIDER_RESULT, Code.PROVIDER_FAILURE)
        return
    assert sorted(index for index, _ in found) == list(range(count))
