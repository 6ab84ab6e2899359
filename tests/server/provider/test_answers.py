"""What every projection of a finite answer refuses, and the counts that it may tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pumas_server.contract.errors import Code, ContractError
from pumas_server.contract.questions import Noul
from pumas_server.provider.answers import finite, input_tokens, is_index, read_answer
from pumas_server.provider.deciding import project_decisions
from pumas_server.provider.embeddings import project_embeddings
from pumas_server.provider.ranking import project_relevance

INVALID, FAILURE = Code.INVALID_PROVIDER_RESULT, Code.PROVIDER_FAILURE

PROJECTIONS: dict[str, tuple[Callable[[bytes], object], str]] = {
    "embeddings": (
        lambda raw: project_embeddings(raw, 1, None),
        '"data":[{"index":0,"embedding":[1.0]}]',
    ),
    "ranking": (
        lambda raw: project_relevance(raw, 1, None),
        '"results":[{"index":0,"relevance_score":1.0}]',
    ),
    "deciding": (
        lambda raw: project_decisions(raw, {"q": Noul(type="noul", instructions="x")}),
        '"answers":{"q":{"type":"noul","noul":0.5}}',
    ),
}


def told(project: Callable[[bytes], object], raw: bytes) -> tuple[Code, str]:
    with pytest.raises(ContractError) as caught:
        project(raw)
    return caught.value.code, caught.value.message


@pytest.mark.parametrize("name", sorted(PROJECTIONS))
def test_an_answer_may_hold_more_than_is_asked_of_it(name: str) -> None:
    project, members = PROJECTIONS[name]
    plain = project(f"{{{members}}}".encode())
    more = '"model":"/models/x.gguf","object":"list","timings":{"a":[1]},"error":null'
    assert project(f" {{{members},{more}}}\n".encode()) == plain


@pytest.mark.parametrize(
    "raw",
    [
        b"", b" ", b"not json", b"{", b"\xff\xfe\xfa", b'{"data":[{"index":0,"embedding":[NaN]}]}',
        b'{"x":Infinity}', b'{"x":-Infinity}', b"{} {}", b"[" * 100_000, b'{"x":' + b"9" * 5000 + b"}",
        b"<html>502</html>", b"data: {}\n\n",
    ],
)  # fmt: skip
def test_what_is_not_json_is_no_result(raw: bytes) -> None:
    for project, _ in PROJECTIONS.values():
        expected = (INVALID, "the provider answered something that is not JSON")
        assert told(project, raw) == expected


@pytest.mark.parametrize("raw", [b"[]", b"null", b"true", b"5", b'"text"', b"[{}]"])
def test_what_is_no_object_is_no_result(raw: bytes) -> None:
    for project, _ in PROJECTIONS.values():
        expected = (INVALID, "the provider answered something that is not an object")
        assert told(project, raw) == expected


# Case 61: an `error` member is a failure, even beside a result.
@pytest.mark.parametrize(
    ("error", "message"),
    [
        ('{"code":500,"message":"out of memory"}', "the provider reported: out of memory"),
        ('"flat"', "the provider reported: flat"),
        (
            '{"message":"cannot open /models/a.gguf with key sk-abcdefgh12345678"}',
            "the provider reported: cannot open [redacted] with key [redacted]",
        ),
        ("{}", "the provider reported an error"),
        ("true", "the provider reported an error"),
        ("false", "the provider reported an error"),
        ("0", "the provider reported an error"),
        ("[]", "the provider reported an error"),
        ('""', "the provider reported an error"),
    ],
)
def test_case_61_an_error_member_is_the_providers_failure(error: str, message: str) -> None:
    for project, members in PROJECTIONS.values():
        for beside in ("", "," + members):
            body = f'{{"error":{error}{beside}}}'
            assert told(project, body.encode()) == (FAILURE, message)


@pytest.mark.parametrize(
    ("answer", "names", "expected"),
    [
        ({"usage": {"prompt_tokens": 7}}, ("prompt_tokens",), 7),
        ({"usage": {"prompt_tokens": 0}}, ("prompt_tokens",), 0),
        ({"usage": {"total_tokens": 9}}, ("prompt_tokens", "total_tokens"), 9),
        ({"usage": {"prompt_tokens": 7, "total_tokens": 9}}, ("prompt_tokens", "total_tokens"), 7),
        ({"usage": {"prompt_tokens": None, "total_tokens": 9}}, ("prompt_tokens", "total_tokens"), 9),
        ({"usage": {"prompt_tokens": -1}}, ("prompt_tokens",), None),
        ({"usage": {"prompt_tokens": True}}, ("prompt_tokens",), None),
        ({"usage": {"prompt_tokens": 7.0}}, ("prompt_tokens",), None),
        ({"usage": {"prompt_tokens": "7"}}, ("prompt_tokens",), None),
        ({"usage": []}, ("prompt_tokens",), None),
        ({"usage": None}, ("prompt_tokens",), None),
        ({"prompt_tokens": 7}, ("prompt_tokens",), None),
        ({}, ("prompt_tokens",), None),
    ],
)  # fmt: skip
def test_input_tokens_are_told_or_not(
    answer: dict[str, Any], names: tuple[str, ...], expected: int | None
) -> None:
    assert input_tokens(answer, *names) == expected


@pytest.mark.parametrize("value", [0, -3, 10**30])
def test_integers_are_indices(value: object) -> None:
    assert is_index(value)


@pytest.mark.parametrize("value", [True, False, 0.0, "0", None, [0]])
def test_nothing_else_is_an_index(value: object) -> None:
    assert not is_index(value)


@pytest.mark.parametrize("value", [0, -1, 0.5, 10**308, -1.7e308])
def test_finite_numbers(value: float) -> None:
    assert finite(value, "a score") == float(value)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (True, "that is no number"),
        (None, "that is no number"),
        ("1", "that is no number"),
        ([1], "that is no number"),
        ({}, "that is no number"),
        (float("inf"), "that is not finite"),
        (float("-inf"), "that is not finite"),
        (float("nan"), "that is not finite"),
        (10**400, "that is not finite"),
    ],
)
def test_numbers_that_are_none(value: object, what: str) -> None:
    assert told(lambda _: finite(value, "a score"), b"") == (
        INVALID,
        f"the provider gave a score {what}",
    )


def test_the_object_is_given_as_it_is() -> None:
    assert read_answer(b'{"a":[1,{"b":null}]}') == {"a": [1, {"b": None}]}
