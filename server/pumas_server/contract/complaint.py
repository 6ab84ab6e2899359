"""Turns a validator's findings into one sentence that names the field (*Errors*).

pydantic knows where and what; the words are ours, so that no value of the caller's and no
vocabulary of a library reaches a client.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from pumas_server.contract.strict_json import quoted


class Complaint(PydanticCustomError):
    """What a validator of ours says of a field: the rest of a sentence that begins with it."""

    def __new__(cls, words: str) -> Complaint:
        """Keep braces in the words from being taken for a template."""
        return super().__new__(cls, "complaint", words.replace("{", "{{").replace("}", "}}"))


_NEEDS = {
    "string_type": "needs to be a string",
    "int_type": "needs to be an integer",
    "int_from_float": "needs to be an integer",
    "float_type": "needs to be a number",
    "bool_type": "needs to be true or false",
    "list_type": "needs to be a list",
    "dict_type": "needs to be an object",
    "model_type": "needs to be an object",
    "model_attributes_type": "needs to be an object",
    "finite_number": "needs to be a finite number",
    "string_pattern_mismatch": "does not match its pattern",
}


def explain(error: ValidationError, document: Any) -> str:
    """One sentence on the first finding, unknown fields first: they are the likeliest cause."""
    details = error.errors(include_url=False, include_input=False)
    unknown = [d for d in details if d["type"] == "extra_forbidden"]
    return _sentence((unknown or details)[0], document)


def _sentence(detail: ErrorDetails, document: Any) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    place = _place(detail["loc"], document, kind)
    if kind == "extra_forbidden":
        *parents, name = place.rsplit(".", 1) if "." in place else (place,)
        where = f" in {quoted(parents[0])}" if parents else ""
        return f"unknown field {quoted(name)}{where}"
    match kind:
        case "missing":
            return f"missing field {quoted(place)}"
        case "literal_error" | "enum":
            return f"{quoted(place)} needs to be one of: {_words(context['expected'])}"
        case "greater_than_equal":
            return f"{quoted(place)} needs to be at least {context['ge']:g}"
        case "less_than_equal":
            return f"{quoted(place)} needs to be at most {_plain(context['le'])}"
        case "too_short":
            return f"{quoted(place)} needs at least {context['min_length']} item"
        case "too_long":
            return f"{quoted(place)} holds more than {context['max_length']} items"
        case "complaint" | "kind":
            return f"{quoted(place)} {detail['msg']}"
        case _:
            return f"{quoted(place)} {_NEEDS.get(kind, 'is not valid')}"


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else f"{number:g}"


def _words(expected: str) -> str:
    return expected.replace("'", "").replace(" or ", ", ")


def _place(loc: tuple[int | str, ...], document: Any, kind: str) -> str:
    """The path as the caller wrote it."""
    found = _walk(loc, document, "", kind)
    return found or "body"


def _walk(steps: tuple[int | str, ...], here: Any, path: str, kind: str) -> str | None:
    """Follow `steps` into the document; None when they lead nowhere.

    pydantic puts the tags of unions between the steps, and a tag may spell like a field beside
    it: a step that is a field is taken first, and taken for a tag when that leads nowhere.
    """
    if not steps:
        return path
    step, *rest = steps
    if isinstance(here, dict) and isinstance(step, str) and step in here:
        found = _walk(tuple(rest), here[step], f"{path}.{step}" if path else step, kind)
        if found is not None:
            return found
    elif isinstance(here, list) and isinstance(step, int) and step < len(here):
        return _walk(tuple(rest), here[step], f"{path}[{step}]", kind)
    if not rest:
        match kind:
            case "missing":
                return f"{path}.{step}" if path else str(step)
            case "extra_forbidden":
                return None
            case _:
                return path
    return _walk(tuple(rest), here, path, kind)
