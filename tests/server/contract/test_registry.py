"""From raw bytes to an operation: the order of the questions, and the id in every answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumas_server.contract.errors import Code, ContractError
from pumas_server.contract.registry import SUPPORTED_CONTRACT_VERSIONS, parse_operation
from pumas_server.contract.request import Operation
from support.documents import INPUTS, OPTIONS, document, raw, with_content, with_options
from support.well_formed import documents

INVALID, UNSUPPORTED = Code.INVALID_REQUEST, Code.UNSUPPORTED_CONTRACT


def refusal(body: bytes) -> ContractError:
    with pytest.raises(ContractError) as caught:
        parse_operation(body)
    return caught.value


def test_one_version_is_spoken() -> None:
    assert SUPPORTED_CONTRACT_VERSIONS == (1,)
    assert parse_operation(raw(document())).contract_version == 1


# An integer that is not ours is told first, whatever else the body holds.
@pytest.mark.parametrize("version", [2, 0, -1, 10**40])
@pytest.mark.parametrize("changes", [{}, {"unknown": 1}, {"model": ...}, {"input": 7}])
def test_case_8_another_version_is_unsupported(version: int, changes: dict[str, Any]) -> None:
    error = refusal(raw(document(contract_version=version, **changes)))
    assert (error.code, error.request_id) == (UNSUPPORTED, "r1")
    assert error.message == (f"contract_version {str(version)[:20]} is not supported; supported: 1")


@pytest.mark.parametrize("version", [True, 1.0, "1", None, [1], {}])
def test_a_version_that_is_no_integer_is_invalid(version: Any) -> None:
    error = refusal(raw(document(contract_version=version)))
    assert (error.code, error.request_id) == (INVALID, "r1")
    assert "`contract_version` needs to be an integer" in error.message


def test_a_missing_version_is_invalid() -> None:
    error = refusal(raw(document(contract_version=...)))
    assert (error.code, error.request_id) == (INVALID, "r1")
    assert "missing field `contract_version`" in error.message


def replaced(old: str, new: str) -> bytes:
    text = json.dumps(with_options(max_tokens=1))
    assert text.count(old) == 1
    return text.replace(old, new).encode()


@pytest.mark.parametrize(
    ("body", "name", "request_id"),
    [
        (replaced('"model": "llm"', '"model": "llm", "model": "llm"'), "model", "r1"),
        (
            replaced('"request_id": "r1"', '"request_id": "r1", "request_id": "r1"'),
            "request_id",
            None,
        ),
        (replaced('"kind": "messages"', '"kind": "messages", "kind": "text"'), "kind", "r1"),
        (replaced('"max_tokens": 1', '"max_tokens": 1, "max_tokens": 2'), "max_tokens", "r1"),
        (replaced('"content": "hi"', '"content": "hi", "content": "ho"'), "content", "r1"),
        (
            replaced('"content": "hi"', '"content": [{"kind":"text","text":"a","text":"b"}]'),
            "text",
            "r1",
        ),
        (
            replaced('"capability": ', '"capability": null, "capability": '),
            "capability",
            "r1",
        ),
    ],
)
def test_case_4_a_duplicate_field_is_named(body: bytes, name: str, request_id: str | None) -> None:
    error = refusal(body)
    assert (error.code, error.request_id) == (INVALID, request_id)
    assert error.message.endswith(f": duplicate field `{name}`")


@pytest.mark.parametrize(
    ("body", "request_id"),
    [
        (b"not json", None),
        (b"[]", None),
        (raw(document()).replace(b"hi", b"\xff"), None),
        (b"\xef\xbb\xbf" + raw(document()), None),
        (raw(with_options(top_p=float("nan"))), None),
        (raw(with_options(top_p=float("-inf"))), None),
        (raw(document()).replace(b'"hi"', b"[" * 200 + b"]" * 200), None),
        (raw(document()).replace(b'"hi"', b"1e999"), "r1"),
        (raw(with_content("\ud800")), "r1"),
        (raw(document(model="\ud800")), "r1"),
    ],
)
def test_case_5_what_is_no_right_json_is_invalid(body: bytes, request_id: str | None) -> None:
    error = refusal(body)
    assert (error.code, error.request_id) == (INVALID, request_id)


@pytest.mark.parametrize(
    ("request_id", "echoed"),
    [("ok-1", "ok-1"), (" ", None), ("x" * 129, None), ("a b", None), (7, None), (..., None)],
)
def test_cases_6_and_7_a_schema_error_echoes_a_valid_id(
    request_id: Any, echoed: str | None
) -> None:
    assert refusal(raw(document(request_id=request_id, optoins=1))).request_id == echoed


def test_a_flaw_goes_before_the_version() -> None:
    error = refusal(raw(document(contract_version=2)).replace(b'"hi"', b"1e999"))
    assert (error.code, error.request_id) == (INVALID, "r1")


@settings(deadline=None, max_examples=60)
@given(body=st.binary(max_size=64))
def test_any_bytes_raise_nothing_but_a_contract_error(body: bytes) -> None:
    try:
        parse_operation(body)
    except ContractError as error:
        assert error.code in (INVALID, UNSUPPORTED)


_anything = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(10**307, 10**310),
        st.floats(),
        st.text(max_size=6),
        st.sampled_from(["text", "messages", "user", "choice", *INPUTS, *OPTIONS]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["kind", "type", "text", "messages", "role", "content", "max_tokens", "items",
                 "parts", "questions", "criteria", "state", "images", "documents", "encoding", "x"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=10,
)  # fmt: skip


def _containers(value: Any) -> Iterator[dict[str, Any] | list[Any]]:
    if isinstance(value, dict | list):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _containers(inner)


@settings(deadline=None, max_examples=60)
@given(data=st.data(), base=documents)
def test_a_document_with_anything_put_anywhere_raises_nothing_else(
    data: st.DataObject, base: dict[str, Any]
) -> None:
    holder = data.draw(st.sampled_from([found for found in _containers(base) if found]))
    places: list[Any] = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    if isinstance(holder, dict):
        places += ["options", "x"]
    holder[data.draw(st.sampled_from(places))] = data.draw(_anything)
    try:
        parse_operation(json.dumps(base).encode())
    except ContractError as error:
        assert error.message.isprintable()
        error.message.encode()


@settings(deadline=None, max_examples=40)
@given(body=documents)
def test_every_well_formed_operation_survives_json(body: dict[str, Any]) -> None:
    parsed = parse_operation(raw(body))
    again = parse_operation(raw(parsed.model_dump(mode="json", exclude_unset=True)))
    assert isinstance(again, Operation)
    assert again == parsed
