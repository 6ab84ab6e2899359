"""The parts that descriptions of several routes are made of. Pure."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

#: Where a type's schema stands.
REF = "#/components/schemas/{model}"


def schema_of(name: str) -> Json:
    """The content of a body of this type."""
    return {"schema": {"$ref": REF.format(model=name)}}


def parameter(name: str, place: str, rule: Json, *, required: bool = False) -> Json:
    """A parameter that is text."""
    schema = {"type": "string", **rule}
    return {"name": name, "in": place, "required": required, "schema": schema}


def get_and_head(summary: str, responses: Json, parameters: list[Json] | None) -> Json:
    """A route that is read: HEAD answers as GET does, without a body."""
    get: Json = {"summary": summary, "responses": responses}
    bare = {s: {k: v for k, v in r.items() if k != "content"} for s, r in responses.items()}
    head: Json = {"summary": f"{summary} (header only)", "responses": bare}
    if parameters is not None:
        get["parameters"] = head["parameters"] = parameters
    return {"get": get, "head": head}
