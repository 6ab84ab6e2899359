"""Problems: one shape, a status and a page for every code."""

from __future__ import annotations

import pytest

from pumas_server.router.lmsp.problems import (
    ProblemCode,
    ProblemError,
    answer_object,
    canonical,
    problem_object,
)

STATUSES = {
    "model_not_found": 404,
    "model_not_ready": 409,
    "model_load_failed": 503,
    "invalid_request": 400,
    "not_found": 404,
    "method_not_allowed": 405,
    "idempotency_in_progress": 409,
    "idempotency_key_reused": 422,
    "unavailable": 503,
    "internal_error": 500,
}


def test_the_codes_and_their_statuses() -> None:
    assert {code.value: code.status for code in ProblemCode} == STATUSES


@pytest.mark.parametrize("code", ProblemCode)
def test_a_page_is_one_line_that_names_its_code(code: ProblemCode) -> None:
    assert code.page.endswith("\n")
    assert code.page.count("\n") == 1
    assert f"({code})" in code.page
    assert code.heading in code.page


def test_an_answer_has_the_instance_of_its_request() -> None:
    error = ProblemError(ProblemCode.INVALID_REQUEST, "It is wrong.", param="ready_only")
    assert answer_object("https://example/problems/", error, "id-1") == {
        "type": "https://example/problems/invalid_request",
        "title": "Invalid request",
        "status": 400,
        "detail": "It is wrong.",
        "code": "invalid_request",
        "instance": "urn:uuid:id-1",
        "param": "ready_only",
    }


def test_a_problem_inside_a_model_has_no_instance() -> None:
    made = problem_object("/p/", ProblemCode.MODEL_LOAD_FAILED, "d", status=500)
    assert made["status"] == 500
    assert set(made) == {"type", "title", "status", "detail", "code"}


def test_canonical_json_is_the_same_for_equal_values() -> None:
    assert canonical({"b": [1, "é"], "a": {"d": 1, "c": None}}) == (
        '{"a":{"c":null,"d":1},"b":[1,"é"]}'
    )
