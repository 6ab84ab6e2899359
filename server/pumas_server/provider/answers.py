"""Finite answers of the dialect as JSON, and what every projection of one refuses."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn, TypeGuard

from pumas_server.contract.errors import Code, ContractError
from pumas_server.provider.projection import refuse_reported_error


def read_answer(raw: bytes) -> dict[str, Any]:
    """The object in a 2xx answer. Raises `ContractError`; an `error` member is a failure."""
    try:
        answer = json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        incoherent("answered something that is not JSON")
    if not isinstance(answer, dict):
        incoherent("answered something that is not an object")
    refuse_reported_error(answer)
    return answer


def incoherent(what: str) -> NoReturn:
    """Raise: the provider's answer cannot be a result."""
    raise ContractError(Code.INVALID_PROVIDER_RESULT, f"the provider {what}")


def is_index(value: object) -> TypeGuard[int]:
    """Whether `value` is a JSON integer."""
    return isinstance(value, int) and not isinstance(value, bool)


def finite(value: object, what: str) -> float:
    """`value` as a finite number. `what` names it in the refusal."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        incoherent(f"gave {what} that is no number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        incoherent(f"gave {what} that is not finite")
    return number


def input_tokens(answer: dict[str, Any], *names: str) -> int | None:
    """The first of these counts in the answer's usage; None when it does not tell."""
    usage = answer.get("usage")
    if isinstance(usage, dict):
        for name in names:
            count = usage.get(name)
            if is_index(count) and count >= 0:
                return count
    return None


def _refuse_constant(literal: str) -> NoReturn:
    raise ValueError(literal)
