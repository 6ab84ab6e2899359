"""Vectors: one for each input and in order, of one width, finite as float32; cut and renormalised."""

from __future__ import annotations

import json
import math
import struct
from decimal import Decimal, localcontext
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumas_server.contract.errors import Code, ContractError
from pumas_server.contract.results import EmbeddingsResult
from pumas_server.provider.embeddings import project_embeddings

FLOAT32_MAX = 3.4028234663852886e38
ONE_EACH = "did not give exactly one embedding for each of 2 inputs"
NO_NUMBERS = "gave an embedding that is no list of numbers"
NOT_FINITE = "gave an embedding with a value that is not finite"


def entry(index: Any, embedding: Any, **members: Any) -> dict[str, Any]:
    return {"object": "embedding", "index": index, "embedding": embedding, **members}


def body(*entries: Any) -> bytes:
    return json.dumps({"object": "list", "data": list(entries), "usage": {}}).encode()


def project(raw: bytes, count: int, dimensions: int | None = None) -> list[list[float]]:
    result = project_embeddings(raw, count, dimensions)
    assert isinstance(result, EmbeddingsResult)
    return result.vectors


def refused(raw: bytes, count: int, dimensions: int | None = None) -> str:
    with pytest.raises(ContractError) as caught:
        project_embeddings(raw, count, dimensions)
    assert caught.value.code is Code.INVALID_PROVIDER_RESULT
    return caught.value.message.removeprefix("the provider ")


def test_vectors_are_given_as_they_came() -> None:
    raw = body(entry(0, [0.25, -1, 1e-40]), entry(1, [3, 0.1, -0.0]))
    assert project(raw, 2) == [[0.25, -1, 1e-40], [3, 0.1, -0.0]]


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b"{}", ONE_EACH),
        (b'{"data":null}', ONE_EACH),
        (b'{"data":{"0":[1]}}', ONE_EACH),
        (body(), ONE_EACH),
        (body(entry(0, [1.0])), ONE_EACH),
        (body(entry(0, [1.0]), entry(1, [1.0]), entry(2, [1.0])), ONE_EACH),
        # Order is the provider's to keep; it is not mended here.
        (body(entry(1, [1.0]), entry(0, [1.0])), "gave an embedding whose index is not 0"),
        (body(entry(0, [1.0]), entry(0, [1.0])), "gave an embedding whose index is not 1"),
        (body(entry(0, [1.0]), entry(2, [1.0])), "gave an embedding whose index is not 1"),
        (body(entry(0, [1.0]), entry(-1, [1.0])), "gave an embedding whose index is not 1"),
        (body(entry(0, [1.0]), entry(True, [1.0])), "gave an embedding whose index is not 1"),
        (body(entry(False, [1.0]), entry(1, [1.0])), "gave an embedding whose index is not 0"),
        (body(entry(0, [1.0]), entry(1.0, [1.0])), "gave an embedding whose index is not 1"),
        (body(entry("0", [1.0]), entry(1, [1.0])), "gave an embedding whose index is not 0"),
        (body({"embedding": [1.0]}, entry(1, [1.0])), "gave an embedding whose index is not 0"),
        (body([1.0], entry(1, [1.0])), "gave an embedding that is not an object"),
        (body(None, None), "gave an embedding that is not an object"),
        (body(entry(0, []), entry(1, [1.0])), NO_NUMBERS),
        (body(entry(0, None), entry(1, [1.0])), NO_NUMBERS),
        (body(entry(0, "AACAPw=="), entry(1, [1.0])), NO_NUMBERS),
        (body(entry(0, {"0": 1.0}), entry(1, [1.0])), NO_NUMBERS),
        (body(entry(0, [[1.0, 2.0]]), entry(1, [1.0])), NO_NUMBERS),
        (body(entry(0, [1.0, True]), entry(1, [1.0])), NO_NUMBERS),
        (body(entry(0, [1.0, None]), entry(1, [1.0])), NO_NUMBERS),
        (body(entry(0, [1.0, "2"]), entry(1, [1.0])), NO_NUMBERS),
        (body(entry(0, [1.0]), entry(1, [1.0, 2.0])), "gave embeddings of different widths"),
        (body(entry(0, [1.0, 2.0]), entry(1, [1.0])), "gave embeddings of different widths"),
        (body(entry(0, [1e100]), entry(1, [1.0])), NOT_FINITE),
        (body(entry(0, [1.0]), entry(1, [-1e100])), NOT_FINITE),
        (body(entry(0, [10**60]), entry(1, [1.0])), NOT_FINITE),
        (body(entry(0, [-(10**400)]), entry(1, [1.0])), NOT_FINITE),
        (body(entry(0, [1.0, 2.0]), entry(1, [1.0, 2.0])).replace(b"2.0", b"1e999"), NOT_FINITE),
        (body(entry(0, [1.0, 2.0]), entry(1, [1.0, 2.0])).replace(b"2.0", b"-1e999"), NOT_FINITE),
    ],
)
def test_vectors_that_are_not_coherent(raw: bytes, what: str) -> None:
    assert refused(raw, 2) == what


# Case 56: engines that ignore `dimensions` give the whole width.
@pytest.mark.parametrize(
    ("vector", "dimensions", "expected"),
    [
        ([3.0, 4.0, 12.0, 84.0], 1, [1.0]),
        ([3.0, 4.0, 12.0, 84.0], 2, [0.6, 0.8]),
        ([3.0, 4.0, 12.0, 84.0], 3, [3 / 13, 4 / 13, 12 / 13]),
        ([3.0, 4.0, 12.0, 84.0], 4, [3 / 85, 4 / 85, 12 / 85, 84 / 85]),
        ([-3, 4], 2, [-0.6, 0.8]),
        # No length, no direction: it stays.
        ([0.0, 0.0, 5.0], 2, [0.0, 0.0]),
        ([0, -0.0, 1], 2, [0, -0.0]),
        # The squares of these are beyond a float.
        ([1e-200, 0.0, 1.0], 2, [1.0, 0.0]),
        ([3e38, 3e38], 2, [math.sqrt(0.5), math.sqrt(0.5)]),
    ],
)
def test_case_56_leading_values_are_kept_at_unit_length(
    vector: list[float], dimensions: int, expected: list[float]
) -> None:
    [made] = project(body(entry(0, vector)), 1, dimensions)
    assert made == pytest.approx(expected, rel=1e-14, abs=0)


def test_case_53_two_vectors_of_four_from_eight() -> None:
    whole = [[0.1 * n for n in range(1, 9)], [-0.5, 0.5, 0.25, 0.0, 1.0, 1.0, 1.0, 1.0]]
    made = project(body(entry(0, whole[0]), entry(1, whole[1])), 2, 4)
    for vector, full in zip(made, whole, strict=True):
        assert len(vector) == 4
        assert math.fsum(value * value for value in vector) == pytest.approx(1, rel=1e-14)
        length = math.sqrt(math.fsum(value * value for value in full[:4]))
        assert vector == pytest.approx([value / length for value in full[:4]], rel=1e-14)


def test_case_54_more_dimensions_than_the_model_gives() -> None:
    raw = body(entry(0, [1.0] * 8))
    assert refused(raw, 1, 9) == "gave embeddings of 8 values, fewer than the 9 asked for"
    assert len(project(raw, 1, 8)[0]) == 8


@settings(deadline=None, max_examples=30)
@given(
    vector=st.lists(st.floats(-1e30, 1e30), min_size=1, max_size=12),
    dimensions=st.integers(1, 12),
)
def test_what_is_cut_has_unit_length_and_the_same_direction(
    vector: list[float], dimensions: int
) -> None:
    raw = body(entry(0, vector))
    if dimensions > len(vector):
        refused(raw, 1, dimensions)
        return
    [made] = project(raw, 1, dimensions)
    with localcontext() as context:
        context.prec = 60
        kept = [Decimal(value) for value in vector[:dimensions]]
        length = sum((value * value for value in kept), Decimal()).sqrt()
        wanted = [float(value / length) for value in kept] if length else vector[:dimensions]
    assert made == pytest.approx(wanted, rel=1e-12, abs=1e-300)


@settings(deadline=None, max_examples=40)
@given(
    value=st.one_of(
        st.floats(allow_nan=False, allow_infinity=False),
        st.floats(3.4028230e38, 3.4028240e38),
        st.integers(-(10**40), 10**40),
        st.sampled_from([FLOAT32_MAX, 3.4028235e38, 3.4028235677973362e38, 3.4028235677973366e38]),
    )
)
def test_a_value_is_taken_if_it_is_finite_as_a_float32(value: float) -> None:
    try:
        struct.pack("<f", float(value))
        fits = True
    except OverflowError:
        fits = False
    for signed in (value, -value):
        raw = body(entry(0, [0.5, signed]))
        if fits:
            assert project(raw, 1) == [[0.5, signed]]
        else:
            assert refused(raw, 1) == NOT_FINITE


_json = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-2, 2), st.floats(), st.integers(10**308, 10**309),
        st.text(max_size=3),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["data", "index", "embedding", "error"]), inner, max_size=3),
    ),
    max_leaves=8,
)  # fmt: skip
_entries = st.fixed_dictionaries(
    {"index": st.integers(0, 1), "embedding": st.lists(st.floats(), max_size=3)}
)


@settings(deadline=None, max_examples=40)
@given(
    answer=st.one_of(
        _json,
        st.fixed_dictionaries({"data": st.lists(st.one_of(_entries, _json), max_size=3)}),
    ),
    count=st.integers(1, 3),
    dimensions=st.one_of(st.none(), st.integers(1, 4)),
)
def test_any_answer_is_a_result_or_an_error_of_the_contract(
    answer: Any, count: int, dimensions: int | None
) -> None:
    try:
        vectors = project(json.dumps(answer).encode(), count, dimensions)
    except ContractError as error:
        assert error.code in (Code.INVALID_PROVIDER_RESULT, Code.PROVIDER_FAILURE)
        return
    assert len(vectors) == count
    assert len({len(vector) for vector in vectors}) == 1
    for vector in vectors:
        struct.pack(f"<{dimensions or len(vector)}f", *vector)
