"""The schema of requests in the committed document and the grammar, held against each other.

What the grammar takes fits the schema, and what fits the schema the grammar takes, but for the few
rules that JSON Schema has no words for.
"""

from __future__ import annotations

import copy
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode

from pumas_server.contract.errors import Code, ContractError
from pumas_server.contract.registry import parse_operation
from support.well_formed import documents

DOCUMENT = json.loads((Path(__file__).parents[3] / "docs" / "openapi.json").read_text())
SCHEMAS = DOCUMENT["components"]["schemas"]
_EXPRESSIONS: dict[str, re.Pattern[str]] = {}


def _ecma(validator: Any, pattern: str, value: Any, schema: Any) -> Iterator[Any]:
    """In JSON Schema `$` is the very end; in Python a line feed may stand behind it."""
    if isinstance(value, str):
        made = _EXPRESSIONS.setdefault(pattern, re.compile(re.sub(r"\$$", r"\\Z", pattern)))
        if not made.search(value):
            yield jsonschema.ValidationError(f"{value!r} does not match {pattern!r}")


def inlined(node: Any) -> Any:
    """A schema without references, which cost most of the time."""
    if isinstance(node, list):
        return [inlined(item) for item in node]
    if not isinstance(node, dict):
        return node
    if isinstance(node.get("$ref"), str):
        return inlined(SCHEMAS[node["$ref"].rpartition("/")[2]])
    return {key: inlined(value) for key, value in node.items()}


def _one_of(validator: Any, arms: Any, value: Any, schema: Any) -> Iterator[Any]:
    """As it is, but without listing all that is wrong with each arm: ten times as fast."""
    if sum(validator.evolve(schema=arm).is_valid(value) for arm in arms) != 1:
        yield jsonschema.ValidationError(f"{value!r} is not exactly one of the arms")


VALIDATOR = jsonschema.validators.extend(
    jsonschema.Draft202012Validator, {"pattern": _ecma, "oneOf": _one_of}
)(inlined(SCHEMAS["Operation"]))

#: What the grammar refuses and JSON Schema has no words for.
UNSAYABLE = re.compile(
    r"needs to be an integer$"  # written as 1.0
    r"|is \d+ bytes; at most 256 are allowed$"
    r"|at most 30 seconds are allowed$"
)


def refusal(document: Any) -> str | None:
    """What the grammar says against a document; None when it takes it."""
    try:
        parse_operation(json.dumps(document).encode())
    except ContractError as error:
        assert error.code in (Code.INVALID_REQUEST, Code.UNSUPPORTED_CONTRACT)
        return error.message
    return None


def compare(document: Any, seen: Counter[str]) -> None:
    """The two agree, but for what is unsayable. Counts how."""
    said, valid = refusal(document), VALIDATOR.is_valid(document)
    if said is None:
        assert valid, next(VALIDATOR.iter_errors(document))
        seen["accepted"] += 1
    elif valid:
        assert UNSAYABLE.search(said), f"the schema takes it, the grammar does not: {said}"
        seen["unsayable"] += 1
    else:
        seen["refused"] += 1


IMAGE = {"encoding": "png", "data_base64": "AAAA"}
CLIP = {
    "encoding": "pcm_s16le",
    "sample_rate_hz": 16000,
    "channels": 1,
    "sample_count": 2,
    "data_base64": "AAAAAA==",
}
TEXT_PART = {"kind": "text", "text": "look"}
PARTS = [TEXT_PART, {"kind": "image", **IMAGE}, {"kind": "audio", **CLIP}]
INPUTS: dict[str, dict[str, Any]] = {
    "text": {"text": "hi"},
    "text_batch": {"texts": ["a", "b"]},
    "messages": {
        "messages": [
            {"role": "system", "content": [TEXT_PART, TEXT_PART]},
            {"role": "user", "content": PARTS},
            {"role": "assistant", "content": "well"},
        ]
    },
    "image_messages": {
        "messages": [{"role": "user", "content": "no"}, {"role": "user", "content": PARTS[1:2]}]
    },
    "image": IMAGE,
    "content_batch": {"items": [{"parts": PARTS}, {"parts": [TEXT_PART]}]},
    "decision": {
        "state": {"any": [1, None, True]},
        "questions": {
            "a": {"type": "choice", "instructions": "i", "criteria": {"x": "is x", "y": None}},
            "b": {"type": "score", "instructions": "i", "criteria": ["low", "high"]},
            "c": {"type": "noul", "instructions": "i", "criteria": {"true": "yes", "false": None}},
            "d": {"type": "noul", "instructions": "i", "criteria": None},
        },
        "images": [IMAGE],
        "audio": [CLIP],
    },
    "rerank": {"query": "q", "documents": ["a", "b"]},
    "audio": CLIP,
}
OPTIONS: dict[str, dict[str, Any]] = {
    "text_generation": {"max_tokens": 1, "temperature": 0.5, "top_p": 1},
    "embeddings": {"dimensions": 4},
    "image_generation": {"width": 64, "height": 64, "seed": 0},
    "decision": {},
    "rerank": {"top_n": 1},
    "audio_transcription": {"language": "en", "max_output_tokens": 512},
}
OUTPUTS = list(SCHEMAS["Output"]["enum"])


def well_formed() -> list[dict[str, Any]]:
    """One document of each input, with each options, with and without the optional members."""
    base = {"contract_version": 1, "request_id": "r:1", "model": "a/b c", "output": "text"}
    narrowed = {
        "profile": "default",
        "capability": "chat_generation",
        "semantic_task": "chat_generation",
        "stream": False,
    }
    inputs = [{"kind": kind, **members} for kind, members in INPUTS.items()]
    options = [{"kind": kind, **members} for kind, members in OPTIONS.items()]
    return [
        *({**base, "input": value} for value in inputs),
        *({**base, **narrowed, "input": inputs[0], "options": value} for value in options),
        *({**base, "input": inputs[0], "output": o, "options": options[2]} for o in OUTPUTS),
        {**base, "input": inputs[0], "options": None, "profile": None, "semantic_task": None},
    ]


SEEDS = well_formed()


def test_every_kind_is_among_the_seeds() -> None:
    def kinds(union: Any) -> set[str]:
        names = [reference.rpartition("/")[2] for reference in (arm["$ref"] for arm in union)]
        return {SCHEMAS[name]["properties"]["kind"]["const"] for name in names}

    members = SCHEMAS["Operation"]["properties"]
    assert kinds(members["input"]["oneOf"]) == set(INPUTS)
    assert kinds(members["options"]["anyOf"][0]["oneOf"]) == set(OPTIONS)
    for seed in SEEDS:
        assert refusal(seed) is None, seed


JUNK: list[Any] = [
    *(None, True, 0, 1, -1, 1.0, 2.5, 2**32),
    *("", "\t\n", "\ufeff", "x", "x\n", " x", "é" * 129, "x" * 257),
    *([], [""], ["a"], ["a", "b"], {}, {"kind": "text"}, {"a": "b"}),
    *("text", "image", "png_base64", "system", "image_generation"),
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every node below the root."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, member in inside:
        yield (*path, key)
        if isinstance(member, dict | list):
            yield from places(member, (*path, key))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def mutate(document: Any, chance: random.Random) -> Any:
    """A copy with one or two nodes replaced, removed, added or taken from another document."""
    made = copy.deepcopy(document)
    for _ in range(chance.choice([1, 1, 2])):
        *path, last = chance.choice(list(places(made)))
        around = at(made, tuple(path))
        match chance.randrange(5):
            case 0:
                del around[last]
            case 1 if isinstance(around, dict):
                around[chance.choice(["extra", "kind", "text", "stream", "capability"])] = (
                    chance.choice(JUNK)
                )
            case 2:
                other = chance.choice(SEEDS)
                around[last] = copy.deepcopy(at(other, chance.choice(list(places(other)))))
            case _:
                around[last] = copy.deepcopy(chance.choice(JUNK))
    return made


def test_the_schema_agrees_with_the_grammar_on_mutated_documents() -> None:
    seen: Counter[str] = Counter()
    chance = random.Random(4)
    for round_ in range(1500):
        compare(mutate(SEEDS[round_ % len(SEEDS)], chance), seen)
    assert seen["accepted"] > 100
    assert seen["refused"] > 1000


def test_the_schema_agrees_with_the_grammar_on_every_member() -> None:
    """Each member of each kind of record replaced by each piece of junk."""
    seen: Counter[str] = Counter()
    known: set[str] = set()
    for seed in SEEDS[: len(INPUTS) + len(OPTIONS)]:
        for *path, last in places(seed):
            around = at(seed, tuple(path))
            # A member of an equal record, or any of the envelope, was tried before.
            member = f"{last} of {json.dumps(around) if path else 'the root'}"
            if member not in known:
                known.add(member)
                for junk in JUNK:
                    made = copy.deepcopy(seed)
                    at(made, tuple(path))[last] = junk
                    compare(made, seen)
    assert seen["accepted"] > 400
    assert seen["refused"] > 2000


OPERATION = schemathesis.openapi.from_dict(copy.deepcopy(DOCUMENT))["/v1/model-operations"]["POST"]


def test_the_grammar_takes_what_is_made_from_the_schema() -> None:
    seen: Counter[str] = Counter()

    @settings(
        max_examples=100,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(OPERATION.as_strategy(generation_mode=GenerationMode.POSITIVE))
    def agree(case: schemathesis.Case) -> None:
        compare(case.body, seen)

    agree()
    assert seen["refused"] == 0
    assert seen["accepted"] > 50


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(documents)
def test_every_well_formed_document_fits_the_schema(document: Any) -> None:
    assert refusal(document) is None
    assert VALIDATOR.is_valid(document), next(VALIDATOR.iter_errors(document))


@pytest.mark.parametrize(
    "model",
    [
        "",
        " x",
        "x\u00a0",
        "x\u2028",
        "x\x85",
        "\x1fx",
        "a\x00b",
        "a\x9fb",
        "\ufeffx",
        "é",
        "a\u2028b",
    ],
)
def test_a_models_name_is_agreed_on(model: str) -> None:
    compare(SEEDS[0] | {"model": model}, Counter())


@pytest.mark.parametrize("letters", [(1, "x"), (256, "x"), (257, "x"), (128, "é"), (129, "é")])
def test_the_length_of_a_models_name_is_agreed_on(letters: tuple[int, str]) -> None:
    seen: Counter[str] = Counter()
    count, letter = letters
    compare(SEEDS[0] | {"model": letter * count}, seen)
    expected = {129: "unsayable", 257: "refused"}.get(count, "accepted")
    assert seen[expected] == 1
