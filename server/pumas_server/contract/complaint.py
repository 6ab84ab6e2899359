"""Turns a validator's findings into one sentence that names the field (*Errors*).

pydantic knows where and what; the words are ours, so that no value of the caller's and no
vocabulary of a library reaches a client.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    details = error.errors(include_url=False, include_input=False)
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
            return f"{quoted(place)} needs to be one of: {_words(context['expected'])}"
        case "greater_than_equal":
            return f"{quoted(place)} needs to be at least {context['ge']:g}"
        case "less_than_equal":
            return f"{quoted(place)} needs to be at most {_plain(context['le'])}"
        case "too_short":
            least = context["min_length"]
            return f"{quoted(place)} needs at least {least} item{'s' if least > 1 else ''}"
        case "string_pattern_mismatch":
            pattern = context["pattern"].removeprefix("^").removesuffix(END)
            return f"{quoted(place)} needs to match {pattern}"
        case "complaint" | "kind":
            return f"{quoted(place or 'body')} {detail['msg']}"
        case _:
            return f"{quoted(place)} {_NEEDS.get(kind, 'is not valid')}"


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
