"""Turns a validator's findings into one sentence that names the field (*Errors*).

pydantic knows where and what; the words are ours, so that no vocabulary of a library reaches a
client. Of the caller's values it shows the one that is not among the allowed ones, shortened.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from pumas_server.contract.strict_json import quoted


class Complaint(PydanticCustomError):
    """What a validator of ours says of a field: the rest of a sentence that begins with it."""

    def __new__(cls, words: str) -> Complaint:
        """Without a context, words are taken as they are: braces too."""
        return super().__new__(cls, "complaint", words)


#: What a pattern ends with; `$` would let a line feed pass behind it.
END = r"\z"


#: What the type of a finding on a union begins with; the member that tags its arms follows.
NO_ARM = "no_arm_of_"


def tag(word: str) -> str:
    """The name of a union's arm; spelled so that the path of a field can leave it out."""
    return f"<{word}>"


def unknown_field(name: str) -> PydanticCustomError:
    """The finding that a closed record holds `name`."""
    return PydanticCustomError("unknown_field", "unknown field", {"name": name})


_NEEDS = {
    "string_type": "needs to be a string",
    "int_type": "needs to be an integer",
    "float_type": "needs to be a number",
    "bool_type": "needs to be true or false",
    "list_type": "needs to be a list",
    "dict_type": "needs to be an object",
    "model_type": "needs to be an object",
    "string_too_short": "is empty",
}


def explain(error: ValidationError) -> str:
    """One sentence on the first finding, unknown fields first: they are the likeliest cause."""
    details = error.errors(include_url=False)
    unknown = [d for d in details if d["type"] == "unknown_field"]
    return _sentence((unknown or details)[0])


def _sentence(detail: ErrorDetails) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    place = _path(detail["loc"])
    match kind:
        case "unknown_field":
            where = f" in {quoted(place)}" if place else ""
            return f"unknown field {quoted(context['name'])}{where}"
        case "missing":
            return f"missing field {quoted(place)}"
        case "literal_error" | "enum":
            allowed = _words(context["expected"])
            return f"{quoted(place)} needs to be one of: {allowed}{_it_is(detail['input'])}"
        case "greater_than_equal":
            least = f"{context['ge']:g}"
            return f"{quoted(place)} needs to be at least {least}{_it_is(detail['input'])}"
        case "less_than_equal":
            most = _plain(context["le"])
            return f"{quoted(place)} needs to be at most {most}{_it_is(detail['input'])}"
        case "too_short":
            count = context["min_length"]
            return f"{quoted(place)} needs at least {count} item{'s' if count > 1 else ''}"
        case "string_pattern_mismatch":
            pattern = context["pattern"].removeprefix("^").removesuffix(END)
            return f"{quoted(place)} needs to match {pattern}"
        case "complaint":
            return f"{quoted(place) if place else 'the body'} {detail['msg']}"
        case _ if kind.startswith(NO_ARM):
            return _of_no_arm(place, kind.removeprefix(NO_ARM), detail["msg"], detail["input"])
        case _:
            return f"{quoted(place)} {_NEEDS.get(kind, 'is not valid')}"


def _of_no_arm(place: str, member: str, kinds: str, given: Any) -> str:
    if isinstance(given, dict) and member in given:
        named = quoted(f"{place}.{member}")
        return f"{named} needs to be one of: {kinds}{_it_is(given[member])}"
    return f"{quoted(place)} needs a `{member}`, one of: {kinds}"


def _it_is(value: Any) -> str:
    """The end of a sentence that names the given value, where that is short by its nature."""
    match value:
        case str():
            return f"; it is {quoted(value)}"
        case None | bool() | int() | float():
            return f"; it is {quoted(json.dumps(value))}"
        case _:
            return ""


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else f"{number:g}"


def _words(expected: str) -> str:
    return expected.replace("'", "").replace(" or ", ", ")


def _path(loc: Sequence[int | str]) -> str:
    """The place in the caller's document, without the tags that pydantic puts into it."""
    path = ""
    for step in loc:
        if isinstance(step, int):
            path += f"[{step}]"
        elif not step.startswith("<"):
            path += f".{step}" if path else step
    return path
