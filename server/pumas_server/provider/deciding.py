"""Projection of decisions: one answer for each question, of its type and within its criteria."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, assert_never

from pumas_server.contract.questions import Choice, Noul, Question, Score
from pumas_server.contract.results import DecisionsResult
from pumas_server.provider.answers import finite, incoherent, input_tokens, read_answer


def project_decisions(raw: bytes, questions: Mapping[str, Question]) -> DecisionsResult:
    """The answers to `questions`, keyed as they were asked. Raises `ContractError`."""
    answer = read_answer(raw)
    answers = answer.get("answers")
    if not isinstance(answers, dict) or answers.keys() != questions.keys():
        incoherent("did not answer exactly the questions that were asked")
    return DecisionsResult(
        {name: _answer(answers[name], question) for name, question in questions.items()},
        input_tokens(answer, "input_tokens", "prompt_tokens"),
    )


def _answer(answer: Any, question: Question) -> dict[str, object]:
    if not isinstance(answer, dict) or answer.get("type") != question.type:
        incoherent(f"did not answer a {question.type} question with a {question.type}")
    match question:
        case Choice(criteria=criteria):
            choice = answer.get("choice")
            if not isinstance(choice, str) or choice not in criteria:
                incoherent("chose what was no option")
            return {
                "type": "choice",
                "choice": choice,
                "probabilities": _probabilities(answer, criteria),
                "confidence": _probability(answer.get("confidence"), "a confidence"),
            }
        case Score(criteria=criteria):
            levels = [str(level) for level in range(len(criteria))]
            score = finite(answer.get("score"), "a score")
            if not 0 <= score <= len(criteria) - 1:
                incoherent("gave a score outside the levels")
            return {
                "type": "score",
                "score": score,
                "legend": dict(zip(levels, criteria, strict=True)),
                "probabilities": _probabilities(answer, levels),
                "confidence": _probability(answer.get("confidence"), "a confidence"),
            }
        case Noul():
            return {"type": "noul", "noul": _probability(answer.get("noul"), "a probability")}
        case _ as never:
            assert_never(never)


def _probabilities(answer: Mapping[str, Any], keys: Iterable[str]) -> dict[str, float]:
    """The probabilities, in the order of the criteria."""
    given, wanted = answer.get("probabilities"), list(keys)
    if not isinstance(given, dict) or given.keys() != set(wanted):
        incoherent("gave probabilities of other things than the criteria")
    return {key: _probability(given[key], "a probability") for key in wanted}


def _probability(value: object, what: str) -> float:
    number = finite(value, what)
    if not 0 <= number <= 1:
        incoherent(f"gave {what} outside 0 and 1")
    return number
