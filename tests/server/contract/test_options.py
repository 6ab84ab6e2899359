"""Options of each kind: ranges, closed words, and that null is absence."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from pumas_server.contract.options import Options
from pumas_server.contract.registry import parse_operation
from support.documents import (
    OPTIONS,
    raw,
    refused,
    told,
    with_options,
)

LANGUAGES = "en, de, fr, it, es, pt, el, nl, pl, vi, zh, ar, ja, ko"


def parsed(kind: str, **members: Any) -> dict[str, Any]:
    """The members that are set once the grammar has read these options."""
    options = parse_operation(raw(with_options(kind, **members))).options
    assert options is not None
    return options.model_dump(exclude_none=True, exclude={"kind"})


def test_case_19() -> None:
    for options, words in (
        ({"max_tokens": 0}, "`options.max_tokens` needs to be at least 1; it is `0`"),
        ({"temperature": 2.1}, "`options.temperature` needs to be at most 2; it is `2.1`"),
        ({"top_p": -0.1}, "`options.top_p` needs to be at least 0; it is `-0.1`"),
    ):
        assert refused(with_options(**options)) == words
    assert refused(with_options(max_tokens=3.0)) == "`options.max_tokens` needs to be an integer"
    assert refused(with_options(max_tokens="3")) == "`options.max_tokens` needs to be an integer"


@pytest.mark.parametrize("width", [0, -1])
def test_case_59_sizes_of_an_image(width: int) -> None:
    body = with_options("image_generation", width=width, height=12)
    assert told(body) == "`options.width` needs to be at least 1"
    body = with_options("image_generation", width=12, height=width)
    assert told(body) == "`options.height` needs to be at least 1"


def test_case_59_a_negative_seed() -> None:
    body = with_options("image_generation", width=16, height=12, seed=-1)
    assert told(body) == "`options.seed` needs to be at least 0"


#: Members that are whole numbers, with their bounds; what else the kind requires.
INTEGERS = [
    ("text_generation", "max_tokens", 1, 2**32 - 1, {}),
    ("embeddings", "dimensions", 1, 2**32 - 1, {}),
    ("image_generation", "width", 1, 2**32 - 1, {"height": 12}),
    ("image_generation", "height", 1, 2**32 - 1, {"width": 16}),
    ("image_generation", "seed", 0, 2**32 - 1, {"width": 16, "height": 12}),
    ("rerank", "top_n", 1, 2**32 - 1, {}),
    ("audio_transcription", "max_output_tokens", 512, 512, {}),
]


# Cases 54 (dimensions 0) and 87 (top_n 0) are two of these.
@pytest.mark.parametrize(("kind", "name", "least", "most", "others"), INTEGERS)
def test_cases_54_and_87_the_range_of_an_integer(
    kind: str, name: str, least: int, most: int, others: dict[str, Any]
) -> None:
    for value in (least, most):
        assert parsed(kind, **others, **{name: value})[name] == value
    for value in (least - 1, -1, -(2**63), -(10**40)):
        body = with_options(kind, **others, **{name: value})
        assert told(body) == f"`options.{name}` needs to be at least {least}"
    for value in (most + 1, 2**64, 10**40, 10**300):
        body = with_options(kind, **others, **{name: value})
        assert told(body) == f"`options.{name}` needs to be at most {most}"


@pytest.mark.parametrize(("kind", "name", "least", "most", "others"), INTEGERS)
def test_nothing_but_an_integer_is_one(
    kind: str, name: str, least: int, most: int, others: dict[str, Any]
) -> None:
    for value in (512.0, 1e3, "512", "", True, False, [512], {"n": 512}):
        body = with_options(kind, **others, **{name: value})
        assert refused(body) == f"`options.{name}` needs to be an integer"


@pytest.mark.parametrize(("name", "most"), [("temperature", 2), ("top_p", 1)])
def test_the_range_of_a_number(name: str, most: int) -> None:
    for value in (0, 0.0, -0.0, 5e-324, 0.25, most, float(most)):
        assert parsed("text_generation", **{name: value}) == {name: float(value)}
    for value in (-0.1, -1, -(10**300), -5e-324):
        body = with_options(**{name: value})
        assert told(body) == f"`options.{name}` needs to be at least 0"
    for value in (most + 0.1, most + 1, 10**300, 1.7e308):
        body = with_options(**{name: value})
        assert told(body) == f"`options.{name}` needs to be at most {most}"
    for odd in ("1", "", True, False, [], {}):
        assert refused(with_options(**{name: odd})) == f"`options.{name}` needs to be a number"


@pytest.mark.parametrize("kind", sorted(OPTIONS))
def test_null_options_are_defaults(kind: str) -> None:
    required = {"width": 16, "height": 12} if kind == "image_generation" else {}
    nulls = {name: None for name in OPTIONS[kind] if name not in {"kind", *required}}
    assert parsed(kind, **required, **nulls) == required


@pytest.mark.parametrize("name", ["width", "height"])
def test_a_size_is_required(name: str) -> None:
    sizes: dict[str, Any] = {"width": 16, "height": 12}
    without = {key: value for key, value in sizes.items() if key != name}
    assert refused(with_options("image_generation", **without)) == f"missing field `options.{name}`"
    body = with_options("image_generation", **{**sizes, name: None})
    assert refused(body) == f"`options.{name}` needs to be an integer"


def test_the_languages_of_transcription() -> None:
    for language in LANGUAGES.split(", "):
        assert parsed("audio_transcription", language=language) == {"language": language}


@pytest.mark.parametrize("language", ["EN", "en-GB", "", "klingon", 5, ["en"]])
def test_another_language_is_refused(language: Any) -> None:
    body = with_options("audio_transcription", language=language)
    assert told(body) == f"`options.language` needs to be one of: {LANGUAGES}"


def test_the_samples_hold_every_member_of_every_kind() -> None:
    # What walks the samples would otherwise miss a member that was added.
    schema = TypeAdapter(Options).json_schema()
    kinds = {
        record["properties"]["kind"]["const"]: set(record["properties"])
        for record in schema["$defs"].values()
    }
    assert kinds == {kind: set(options) for kind, options in OPTIONS.items()}
