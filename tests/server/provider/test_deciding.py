"""Decisions: every question answered by its type and within its criteria, as it was asked."""

from __future__ import annotations

import copy
import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumas_server.contract.errors import Code, ContractError
from pumas_server.contract.inputs import DecisionInput
from pumas_server.contract.questions import Question
from pumas_server.contract.results import DecisionsResult
from pumas_server.provider.deciding import project_decisions
from support.documents import operation, with_input
from support.well_formed import questions as well_formed_questions

ASKED = {
    "route": {
        "type": "choice",
        "instructions": "Which team?",
        "criteria": {"billing": None, "shipping": "parcels", "technical": None},
    },
    "refund": {"type": "noul", "instructions": "Is a refund requested?"},
    "urgency": {
        "type": "score",
        "instructions": "How urgent?",
        "criteria": ["can wait", "this week", "today"],
    },
}
ANSWERS: dict[str, Any] = {
    "route": {
        "type": "choice",
        "choice": "technical",
        "probabilities": {"technical": 0.75, "billing": 0.25, "shipping": 0},
        "confidence": 0.625,
    },
    "refund": {"type": "noul", "noul": 0.8},
    "urgency": {
        "type": "score",
        "score": 1.65,
        "legend": {"0": "can wait", "1": "this week", "2": "today"},
        "probabilities": {"0": 0.1, "1": 0.15, "2": 0.75},
        "confidence": 0.5,
    },
}


def parsed(questions: Any) -> dict[str, Question]:
    found = operation(**with_input("decision", questions=questions)).input
    assert isinstance(found, DecisionInput)
    return found.questions


QUESTIONS = parsed(ASKED)


def body(answers: Any, **members: Any) -> bytes:
    usage = {"input_tokens": 270, "output_tokens": 0}
    return json.dumps({"model": "m", "answers": answers, "usage": usage, **members}).encode()


def changed(name: str, **members: Any) -> bytes:
    """The answers with members of one replaced; `...` leaves one out."""
    answers = copy.deepcopy(ANSWERS)
    answers[name].update(members)
    answers[name] = {key: value for key, value in answers[name].items() if value is not ...}
    return body(answers)


def refused(raw: bytes, questions: dict[str, Question] = QUESTIONS) -> str:
    with pytest.raises(ContractError) as caught:
        project_decisions(raw, questions)
    assert caught.value.code is Code.INVALID_PROVIDER_RESULT
    return caught.value.message.removeprefix("the provider ")


def test_case_90_answers_are_keyed_and_ordered_as_they_were_asked() -> None:
    backwards = {name: ANSWERS[name] for name in reversed(ANSWERS)}
    result = project_decisions(body(backwards), QUESTIONS)
    assert result == DecisionsResult(ANSWERS, 270)
    assert list(result.answers) == list(ASKED)
    route = result.answers["route"]["probabilities"]
    assert isinstance(route, dict)
    assert list(route) == ["billing", "shipping", "technical"]
    # The legend is the caller's own, and a noul has no confidence.
    assert result.answers["urgency"]["legend"] == {"0": "can wait", "1": "this week", "2": "today"}
    assert "confidence" not in result.answers["refund"]


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"input_tokens": 5, "prompt_tokens": 6}, 5),
        ({"prompt_tokens": 6}, 6),
        ({}, None),
        (None, None),
    ],
)
def test_the_input_tokens_are_the_providers(usage: Any, tokens: int | None) -> None:
    assert project_decisions(body(ANSWERS, usage=usage), QUESTIONS).input_tokens == tokens


def test_what_an_answer_holds_beside_its_members_is_not_passed_on() -> None:
    raw = changed("route", private="/models/x.gguf", noul=1)
    assert project_decisions(raw, QUESTIONS) == DecisionsResult(ANSWERS, 270)
    # A legend of the provider's is not believed.
    raw = changed("urgency", legend={"0": "lies"})
    assert project_decisions(raw, QUESTIONS) == DecisionsResult(ANSWERS, 270)


NOT_EXACTLY = "did not answer exactly the questions that were asked"
OTHER_THINGS = "gave probabilities of other things than the criteria"


@pytest.mark.parametrize(
    "answers",
    [
        None,
        [],
        "yes",
        {},
        {"route": ANSWERS["route"]},
        {**ANSWERS, "extra": ANSWERS["refund"]},
        {"Route" if name == "route" else name: answer for name, answer in ANSWERS.items()},
    ],
)
def test_exactly_the_questions_are_answered(answers: Any) -> None:
    assert refused(body(answers)) == NOT_EXACTLY


def test_answers_are_needed() -> None:
    assert refused(b"{}") == NOT_EXACTLY


@pytest.mark.parametrize("name", sorted(ASKED))
@pytest.mark.parametrize("answer", [None, [], "technical", 0.5, {}, {"type": None}, {"type": "x"}])
def test_an_answer_is_of_its_questions_type(name: str, answer: Any) -> None:
    kind = ASKED[name]["type"]
    told = refused(body({**ANSWERS, name: answer}))
    assert told == f"did not answer a {kind} question with a {kind}"


def test_an_answer_of_another_questions_type_is_refused() -> None:
    swapped = {**ANSWERS, "route": ANSWERS["urgency"], "urgency": ANSWERS["route"]}
    assert refused(body(swapped)) == "did not answer a choice question with a choice"


@pytest.mark.parametrize("choice", ["", "Technical", "other", None, 2, ["technical"], {}, ...])
def test_a_choice_is_one_of_the_options(choice: Any) -> None:
    assert refused(changed("route", choice=choice)) == "chose what was no option"


@pytest.mark.parametrize(
    ("name", "probabilities"),
    [
        ("route", ...),
        ("route", None),
        ("route", [0.75, 0.25, 0.0]),
        ("route", {}),
        ("route", {"technical": 0.75, "billing": 0.25}),
        ("route", {"technical": 0.5, "billing": 0.25, "shipping": 0.25, "other": 0.0}),
        ("urgency", ...),
        ("urgency", {"0": 0.5, "1": 0.5}),
        ("urgency", {"1": 0.1, "2": 0.15, "3": 0.75}),
        ("urgency", {"can wait": 0.1, "this week": 0.15, "today": 0.75}),
    ],
)
def test_probabilities_are_of_the_criteria(name: str, probabilities: Any) -> None:
    assert refused(changed(name, probabilities=probabilities)) == OTHER_THINGS


@pytest.mark.parametrize(
    ("value", "what"),
    [
        (None, "that is no number"),
        (True, "that is no number"),
        ("0.5", "that is no number"),
        ([0.5], "that is no number"),
        (..., "that is no number"),
        (-0.01, "outside 0 and 1"),
        (1.01, "outside 0 and 1"),
        (2, "outside 0 and 1"),
        (10**400, "that is not finite"),
    ],
)
def test_probabilities_and_confidences_are_from_0_to_1(value: Any, what: str) -> None:
    assert refused(changed("refund", noul=value)) == f"gave a probability {what}"
    for name in ("route", "urgency"):
        assert refused(changed(name, confidence=value)) == f"gave a confidence {what}"
    if value is not ...:
        for name, key in (("route", "shipping"), ("urgency", "0")):
            given = {**ANSWERS[name]["probabilities"], key: value}
            assert refused(changed(name, probabilities=given)) == f"gave a probability {what}"


def test_an_infinite_probability_is_refused() -> None:
    raw = changed("refund", noul=0.125).replace(b"0.125", b"1e999")
    assert refused(raw) == "gave a probability that is not finite"


@pytest.mark.parametrize(
    ("score", "what"),
    [
        (-0.1, "gave a score outside the levels"),
        (2.1, "gave a score outside the levels"),
        (3, "gave a score outside the levels"),
        (None, "gave a score that is no number"),
        (True, "gave a score that is no number"),
        ("1", "gave a score that is no number"),
        (..., "gave a score that is no number"),
        (10**400, "gave a score that is not finite"),
    ],
)
def test_a_score_is_within_the_levels(score: Any, what: str) -> None:
    assert refused(changed("urgency", score=score)) == what


@pytest.mark.parametrize("score", [0, 0.0, 2, 2.0, 1.9999999999999998])
def test_the_ends_of_the_levels_are_scores(score: float) -> None:
    found = project_decisions(changed("urgency", score=score), QUESTIONS)
    assert found.answers["urgency"]["score"] == score


def test_a_question_of_no_known_type_is_a_fault_of_ours() -> None:
    questions: Any = {"q": SimpleNamespace(type="dream")}
    with pytest.raises(AssertionError):
        project_decisions(body({"q": {"type": "dream"}}), questions)


def coherent(questions: dict[str, Question], data: st.DataObject) -> dict[str, Any]:
    """An answer that the engine could give to these questions."""
    share = st.floats(0, 1)
    answers: dict[str, Any] = {}
    for name, question in questions.items():
        given: dict[str, Any] = {"type": question.type}
        if question.type == "noul":
            given["noul"] = data.draw(share)
        else:
            criteria = question.criteria
            keys = [str(n) for n in range(len(criteria))]
            if isinstance(criteria, dict):
                keys = list(criteria)
                given["choice"] = data.draw(st.sampled_from(keys))
            else:
                given["score"] = data.draw(st.floats(0, len(criteria) - 1))
            given["probabilities"] = {key: data.draw(share) for key in keys}
            given["confidence"] = data.draw(share)
        answers[name] = given
    return answers


@settings(deadline=None, max_examples=25)
@given(asked=well_formed_questions, data=st.data())
def test_any_questions_with_coherent_answers_have_a_result(
    asked: dict[str, Any], data: st.DataObject
) -> None:
    questions = parsed(asked)
    answers = coherent(questions, data)
    result = project_decisions(body(answers), questions)
    assert list(result.answers) == list(asked)
    for name, answer in result.answers.items():
        assert {key: answer[key] for key in answers[name]} == answers[name]


_json = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-2, 3), st.floats(), st.integers(10**308, 10**309),
        st.sampled_from(["choice", "score", "noul", "billing", "technical"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(
                ["answers", "route", "refund", "urgency", "type", "choice", "score", "noul",
                 "probabilities", "confidence", "billing", "0", "1", "2", "error"]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=8,
)  # fmt: skip


@settings(deadline=None, max_examples=40)
@given(anything=_json, data=st.data())
def test_any_answer_is_a_result_or_an_error_of_the_contract(
    anything: Any, data: st.DataObject
) -> None:
    answers = copy.deepcopy(ANSWERS)
    name = data.draw(st.sampled_from(sorted(answers)))
    answers[name][data.draw(st.sampled_from(sorted(answers[name])))] = anything
    for raw in (json.dumps(anything).encode(), body(anything), body(answers)):
        try:
            result = project_decisions(raw, QUESTIONS)
        except ContractError as error:
            assert error.code in (Code.INVALID_PROVIDER_RESULT, Code.PROVIDER_FAILURE)
            continue
        json.dumps(result.member(), allow_nan=False).encode()
