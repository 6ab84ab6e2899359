"""What is wrong with a manifest's fields, in the words of a person: field, value, expectation."""

from __future__ import annotations

import json
import re
from typing import get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

VALUE_LIMIT = 80

#: How pydantic begins its sentences, and how a sentence that names its subject goes on.
_SUBJECTS = re.compile(r"^(Input|String|Tuple|Value) should ")


def describe(kind: type[BaseModel], error: ValidationError) -> str:
    """All complaints about one document, without a full stop."""
    return "; ".join(_complaint(kind, details) for details in error.errors(include_url=False))


def _complaint(kind: type[BaseModel], details: ErrorDetails) -> str:
    field = _path(details["loc"])
    match details["type"]:
        case "extra_forbidden":
            known = ", ".join(_known_fields(kind, details["loc"][:-1]))
            return f"{field} is not a known field; known there: {known}"
        case "missing":
            return f"{field} is required"
        case "value_error":
            sentence = details["msg"].removeprefix("Value error, ")
            return f"{field}: {sentence}" if field else sentence
        case _:
            expected = _SUBJECTS.sub("must ", details["msg"])
            return f"{field} {expected}, not {show(details['input'])}{_hint(details)}"


def _hint(details: ErrorDetails) -> str:
    """YAML's classic: a bare word or digest that is no string."""
    wants_text = details["type"] in ("literal_error", "enum", "string_type")
    if wants_text and isinstance(details["input"], bool | int | float):
        return " (write it in quotes: bare, YAML does not read it as text)"
    return ""


def _path(location: tuple[int | str, ...]) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return "".join(steps).removeprefix(".")


def show(value: object) -> str:
    """A value of a manifest, short enough for a sentence."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= VALUE_LIMIT else f"{shown[:VALUE_LIMIT]}…"


def _known_fields(kind: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """The fields of the record at `location`, as they are written in YAML."""
    for step in location:
        for name, field in kind.model_fields.items():
            if step in (field.alias, name):
                kinds = [field.annotation, *get_args(field.annotation)]
                kind = next(k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel))
    return [field.alias or name for name, field in kind.model_fields.items()]
