"""Closed records: at every level of every kind, and what a body full of faults costs."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from pumas_server.contract.errors import ContractError
from pumas_server.contract.registry import parse_operation
from pumas_server.contract.request import Operation, parse
from support.documents import (
    INPUTS,
    OPTIONS,
    QUESTIONS,
    Document,
    document,
    raw,
    refused,
    with_content,
    with_input,
    with_messages,
    with_options,
)

Place = tuple[str | int, ...]

FULL: dict[str, Document] = {
    kind: document(
        profile="p1",
        semantic_task="rerank",
        stream=False,
        input=wanted,
        options=list(OPTIONS.values())[number % len(OPTIONS)],
    )
    for number, (kind, wanted) in enumerate(INPUTS.items())
}
FULL |= {f"text with {kind} options": document(options=chosen) for kind, chosen in OPTIONS.items()}


def at(body: Any, place: Place) -> Any:
    for step in place:
        body = body[step]
    return body


def objects(value: Any, place: Place = ()) -> Iterator[Place]:
    """The place of every object in a document."""
    if isinstance(value, dict):
        yield place
        for name, member in value.items():
            yield from objects(member, (*place, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from objects(item, (*place, index))


def is_open(place: Place) -> bool:
    """Whether the names in the object at this place are the caller's own."""
    return (
        place[:2] == ("input", "state")
        or place == ("input", "questions")
        or place == ("input", "questions", "route", "criteria")
    )


def records(body: Document) -> list[Place]:
    """The place of every object whose members the contract names."""
    return [place for place in objects(body) if not is_open(place)]


def written(place: Place) -> str:
    text = ""
    for step in place:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def test_the_samples_reach_every_kind_of_record() -> None:
    found = [at(body, place) for body in FULL.values() for place in records(body)]
    assert len(found) > 60
    assert {record.get("kind") for record in found} >= {*INPUTS, *OPTIONS}
    assert {record.get("type") for record in found} >= {q["type"] for q in QUESTIONS.values()}


@pytest.mark.parametrize("name", sorted(FULL))
def test_case_3_an_unknown_field_at_any_level_is_named_with_its_place(name: str) -> None:
    for place in records(FULL[name]):
        body = copy.deepcopy(FULL[name])
        at(body, place)["optoins"] = {"deep": [1]}
        where = f" in `{written(place)}`" if place else ""
        assert refused(body) == f"unknown field `optoins`{where}"


def rewritten(value: Any, place: Place) -> str:
    """The JSON of a document whose object at `place` has its first member twice."""
    if isinstance(value, dict):
        members = [
            (
                json.dumps(name),
                rewritten(member, place[1:] if place[:1] == (name,) else ("", *place)),
            )
            for name, member in value.items()
        ]
        if not place:
            members.insert(0, members[0])
        return "{" + ",".join(f"{name}:{member}" for name, member in members) + "}"
    if isinstance(value, list):
        items = [
            rewritten(item, place[1:] if place[:1] == (index,) else ("", *place))
            for index, item in enumerate(value)
        ]
        return "[" + ",".join(items) + "]"
    return json.dumps(value)


@pytest.mark.parametrize("name", sorted(FULL))
def test_case_4_a_duplicate_at_any_level_is_named(name: str) -> None:
    # In a state and among a caller's own names too: one of the two would be lost unseen.
    for place in objects(FULL[name]):
        body = rewritten(FULL[name], place)
        first = next(iter(at(FULL[name], place)))
        with pytest.raises(ContractError) as caught:
            parse_operation(body.encode())
        assert caught.value.message.endswith(f": duplicate field `{first}`")
        assert caught.value.request_id == "r1"


#: Members that may be absent, by the records that have them.
OPTIONAL = {
    "": {"profile", "capability", "semantic_task", "options", "stream"},
    "options": {
        "max_tokens", "temperature", "top_p", "dimensions", "seed", "top_n", "language",
        "max_output_tokens",
    },
    "input": {"images", "audio"},
    "input.questions.refund": {"criteria"},
    "input.questions.refund.criteria": {"true", "false"},
}  # fmt: skip
TAGS = {"kind", "type"}


@pytest.mark.parametrize("name", sorted(FULL))
def test_case_6_a_missing_field_at_any_level_is_named_with_its_place(name: str) -> None:
    for place in records(FULL[name]):
        for member in at(FULL[name], place):
            body = copy.deepcopy(FULL[name])
            del at(body, place)[member]
            if member in OPTIONAL.get(written(place), set()):
                parse_operation(raw(body))
            elif member in TAGS:
                assert refused(body).startswith(f"`{written(place)}` needs a `{member}`, one of: ")
            elif member != "contract_version":
                assert refused(body) == f"missing field `{written((*place, member))}`"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (document(**{"a.b": 1}), "unknown field `a.b`"),
        (
            document(input={"kind": "text", "text": {"lost": 1}, "lost": 2}),
            "unknown field `lost` in `input`",
        ),
        (with_options(text_generation=1), "unknown field `text_generation` in `options`"),
        (document(**{"x" * 100: 1}), f"unknown field `{'x' * 63}…`"),
        # The typing error is told, not what follows from it.
        (with_options(max_tokns=1, temperature=9), "unknown field `max_tokns` in `options`"),
        (document(input=..., inptu=INPUTS["text"]), "unknown field `inptu`"),
        (with_input("rerank", documents=[], docs=["a"]), "unknown field `docs` in `input`"),
        (
            with_input("decision", questions={"q": {"type": "noul", "instruction": "x"}}),
            "unknown field `instruction` in `input.questions.q`",
        ),
    ],
)
def test_the_likeliest_cause_is_told_first(body: Any, words: str) -> None:
    assert refused(body) == words


NOUL = {"type": "noul", "instructions": "x"}
CHOICE, SCORE = QUESTIONS["route"], QUESTIONS["urgency"]

#: Where a body may hold very many things; what one bad thing is, and what is told of the first.
FLOODS: dict[str, tuple[Document, Any, str]] = {
    "fields": (document(many=1), "fields", "unknown field `q0`"),
    "texts": (with_input("text_batch", texts="many"), 1, "`input.texts[0]` needs"),
    "blank texts": (with_input("text_batch", texts="many"), "", "`input.texts[0]` is blank"),
    "messages": (with_messages("many"), 1, "`input.messages[0]` needs"),
    "empty messages": (with_messages("many"), {}, "missing field `input.messages[0].role`"),
    "parts": (with_content("many"), 1, "`input.messages[0].content[0]` needs"),
    "items": (
        with_input("content_batch", items="many"),
        {},
        "missing field `input.items[0].parts`",
    ),
    "parts of an item": (
        with_input("content_batch", items=[{"parts": "many"}]),
        1,
        "`input.items[0].parts[0]` needs",
    ),
    "questions": (with_input("decision", questions="named"), 1, "`input.questions.q0` needs"),
    "blank questions": (
        with_input("decision", questions="named"),
        {**NOUL, "instructions": ""},
        "`input.questions.q0.instructions` is blank",
    ),
    "options of a choice": (
        with_input("decision", questions={"q": {**CHOICE, "criteria": "named"}}),
        1,
        "`input.questions.q.criteria.q0` needs",
    ),
    "levels of a score": (
        with_input("decision", questions={"q": {**SCORE, "criteria": "many"}}),
        1,
        "`input.questions.q.criteria[0]` needs",
    ),
    "images": (with_input("decision", images="many"), 1, "`input.images[0]` needs"),
    "clips": (with_input("decision", audio="many"), {}, "missing field `input.audio[0]."),
    "documents": (with_input("rerank", documents="many"), 1, "`input.documents[0]` needs"),
}


def flood(name: str, size: int) -> bytes:
    """A body of about `size` bytes of one bad thing."""
    shape, item, _ = FLOODS[name]
    if item == "fields":
        fields = ",".join(f'"q{n}":1' for n in range(size // 12))
        return raw(shape).replace(b'"many": 1', fields.encode())
    one = json.dumps(item)
    many = "[" + ",".join([one] * (size // (len(one) + 1))) + "]"
    named = "{" + ",".join(f'"q{n}":{one}' for n in range(size // (len(one) + 10))) + "}"
    return raw(shape).replace(b'"many"', many.encode()).replace(b'"named"', named.encode())


@pytest.mark.parametrize("name", sorted(FLOODS))
def test_very_many_faults_are_one_finding(name: str) -> None:
    # One finding for each bad item would be gigabytes and minutes for a body of 32 MiB.
    with pytest.raises(ValidationError) as caught:
        Operation.model_validate(json.loads(flood(name, 20_000)))
    assert caught.value.error_count() <= 6


@pytest.mark.parametrize("name", sorted(FLOODS))
def test_a_mebibyte_of_faults_costs_less_than_a_second(name: str) -> None:
    body = json.loads(flood(name, 1 << 20))
    started = time.process_time()
    with pytest.raises(ContractError) as caught:
        parse(body)
    assert time.process_time() - started < 1
    assert FLOODS[name][2] in caught.value.message
