"""Questions of a decision: their types and criteria."""

from __future__ import annotations

from typing import Any

import pytest

from pumas_server.contract.inputs import DecisionInput
from pumas_server.contract.questions import Choice, Noul, NoulCriteria, Score
from support.documents import (
    QUESTIONS,
    of_no_kind,
    operation,
    refused,
    with_input,
)

CHOICE, SCORE, NOUL = QUESTIONS["route"], QUESTIONS["urgency"], QUESTIONS["refund"]


def asked(question: Any) -> str:
    """What is told of a decision that asks only this, with the place cut off."""
    return refused(with_input("decision", questions={"q": question})).replace(
        "input.questions.q", "q"
    )


def parsed(question: Any) -> Any:
    found = operation(**with_input("decision", questions={"q": question})).input
    assert isinstance(found, DecisionInput)
    return found.questions["q"]


@pytest.mark.parametrize(
    ("questions", "words"),
    [
        (..., "missing field `input.questions`"),
        (None, "`input.questions` needs to be an object"),
        ([CHOICE], "`input.questions` needs to be an object"),
        ("q", "`input.questions` needs to be an object"),
        ({}, "`input.questions` needs at least 1 item"),
    ],
)
def test_a_decision_asks_something(questions: Any, words: str) -> None:
    assert refused(with_input("decision", questions=questions)) == words


@pytest.mark.parametrize(
    "question",
    [None, "q", [], {}, {"type": None}, {"type": "bool"}, {"type": ["choice"]}, {"kind": "choice"}],
)
def test_a_question_needs_a_known_type(question: Any) -> None:
    sentence = asked(question).partition("; it is `")[0]
    assert sentence == of_no_kind("q", "type", "choice, noul, score", question)


@pytest.mark.parametrize("question", [CHOICE, SCORE, NOUL])
@pytest.mark.parametrize(
    ("instructions", "words"),
    [
        ("", "`q.instructions` is blank"),
        (" \n", "`q.instructions` is blank"),
        (None, "`q.instructions` needs to be a string"),
        ({"text": "x"}, "`q.instructions` needs to be a string"),
    ],
)
def test_instructions_say_something(question: Any, instructions: Any, words: str) -> None:
    assert asked({**question, "instructions": instructions}) == words


@pytest.mark.parametrize(
    ("criteria", "words"),
    [
        ({}, "`q.criteria` needs at least 1 item"),
        (None, "`q.criteria` needs to be an object"),
        (["a"], "`q.criteria` needs to be an object"),
        ({"a": 5}, "`q.criteria.a` needs to be a string"),
        ({"a": None, "b": ["x"]}, "`q.criteria.b` needs to be a string"),
    ],
)
def test_a_choice_needs_options(criteria: Any, words: str) -> None:
    assert asked({**CHOICE, "criteria": criteria}) == words


@pytest.mark.parametrize(
    ("criteria", "words"),
    [
        ([], "`q.criteria` needs at least 2 items"),
        (["only"], "`q.criteria` needs at least 2 items"),
        (None, "`q.criteria` needs to be a list"),
        ({"0": "a", "1": "b"}, "`q.criteria` needs to be a list"),
        (["a", None], "`q.criteria[1]` needs to be a string"),
        (["a", 1], "`q.criteria[1]` needs to be a string"),
    ],
)
def test_a_score_needs_levels(criteria: Any, words: str) -> None:
    assert asked({**SCORE, "criteria": criteria}) == words


@pytest.mark.parametrize(
    ("criteria", "words"),
    [
        ([], "`q.criteria` needs to be an object"),
        ("true", "`q.criteria` needs to be an object"),
        ({"true": 1}, "`q.criteria.true` needs to be a string"),
        ({"false": True}, "`q.criteria.false` needs to be a string"),
        ({"yes": "x"}, "unknown field `yes` in `q.criteria`"),
    ],
)
def test_a_noul_describes_true_and_false_or_nothing(criteria: Any, words: str) -> None:
    assert asked({**NOUL, "criteria": criteria}) == words


@pytest.mark.parametrize("question", [CHOICE, SCORE])
def test_criteria_are_required_of_a_choice_and_a_score(question: dict[str, Any]) -> None:
    bare = {name: value for name, value in question.items() if name != "criteria"}
    assert asked(bare) == "missing field `q.criteria`"


def test_questions_that_can_be() -> None:
    # How many options and levels there may be is the model's affair.
    options = {f"option {n}": None if n % 2 else "" for n in range(300)}
    assert parsed({**CHOICE, "criteria": options}) == Choice(
        type="choice", instructions="Which team?", criteria=options
    )
    levels = [f"level {n}" for n in range(40)]
    assert parsed({**SCORE, "criteria": levels}) == Score(
        type="score", instructions="How urgent?", criteria=levels
    )
    for criteria, expected in [
        (None, None),
        ({}, NoulCriteria()),
        ({"true": None}, NoulCriteria()),
        ({"false": "no"}, NoulCriteria(false="no")),
    ]:
        assert parsed({**NOUL, "criteria": criteria}) == Noul(
            type="noul", instructions="Is a refund requested?", criteria=expected
        )


def test_a_noul_may_leave_its_criteria_out() -> None:
    bare = {name: value for name, value in NOUL.items() if name != "criteria"}
    assert parsed(bare).criteria is None


@pytest.mark.parametrize("name", ["a.b", "", "<choice>", "ümläut", "true", "x" * 500])
def test_a_question_may_have_any_name(name: str) -> None:
    found = operation(**with_input("decision", questions={name: NOUL})).input
    assert isinstance(found, DecisionInput)
    assert list(found.questions) == [name]
    # And what is wrong with it is told in one printable sentence, however it is called.
    told = refused(with_input("decision", questions={name: {**NOUL, "instructions": ""}}))
    assert told.endswith(" is blank")
    assert len(told) < 100
