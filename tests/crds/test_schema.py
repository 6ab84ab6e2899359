"""Each rewriting rule, and each refusal, on the smallest model that shows it."""

from __future__ import annotations

from datetime import date, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, create_model

from pumas_crds.resource import Closed, ObjectMeta
from pumas_crds.schema import NotStructural, Schema, structural, structural_resource

Short = Annotated[str, Field(max_length=8)]
INT_OR_STRING: Schema = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "maxLength": 8,
    "x-kubernetes-int-or-string": True,
}
PRESERVED: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def said(schema: Any) -> Any:
    """A type that states its own schema."""
    return Annotated[str, WithJsonSchema(schema)]


class Colour(StrEnum):
    """Colours."""

    RED = "red"
    BLUE = "blue"


class Inner(Closed):
    """A part."""

    size: Annotated[int, Field(ge=1)] = 1
    """How large."""


class Keyed(Closed):
    """An item."""

    name: Short
    other: Short = ""


class Endless(Closed):
    """A part of itself."""

    again: Endless | None = None


class Empty(Closed):
    """Nothing."""


class Cat(Closed):
    """A variant."""

    kind: Literal["cat"]


class Dog(Closed):
    """Another."""

    kind: Literal["dog"]


def member(annotation: Any, default: Any = ..., *, defaults: bool = True) -> Any:
    """The schema of one field of that type."""
    model = create_model("Model", __base__=Closed, field=(annotation, default))
    schema: Any = structural(model, defaults=defaults)
    return schema["properties"]["field"]


REWRITTEN: list[tuple[str, Any, Any, Schema]] = [
    ("string", Short, ..., {"type": "string", "maxLength": 8}),
    ("optional", Short | None, None, {"type": "string", "maxLength": 8}),
    ("default", Short, "x", {"type": "string", "maxLength": 8, "default": "x"}),
    ("empty string", Short, "", {"type": "string", "maxLength": 8, "default": ""}),
    ("const", Literal["x"], ..., {"type": "string", "enum": ["x"]}),
    ("literal", Literal["x", "y"], ..., {"type": "string", "enum": ["x", "y"]}),
    ("boolean", bool, False, {"type": "boolean", "default": False}),
    (
        "enumeration",
        Colour,
        Colour.RED,
        {
            "description": "Colours.",
            "type": "string",
            "enum": ["red", "blue"],
            "default": "red",
        },
    ),
    (
        "at least, at most",
        Annotated[int, Field(ge=1, le=2)],
        ...,
        {"type": "integer", "minimum": 1, "maximum": 2},
    ),
    (
        "more, less",
        Annotated[float, Field(gt=0, lt=1)],
        ...,
        {
            "type": "number",
            "minimum": 0.0,
            "exclusiveMinimum": True,
            "maximum": 1.0,
            "exclusiveMaximum": True,
        },
    ),
    ("time", datetime, ..., {"type": "string", "format": "date-time", "maxLength": 64}),
    (
        "list",
        Annotated[tuple[Short, ...], Field(max_length=2)],
        (),
        {
            "type": "array",
            "maxItems": 2,
            "x-kubernetes-list-type": "atomic",
            "items": {"type": "string", "maxLength": 8},
        },
    ),
    (
        "map",
        Annotated[dict[str, Short], Field(max_length=2)],
        {},
        {
            "type": "object",
            "maxProperties": 2,
            "additionalProperties": {"type": "string", "maxLength": 8},
        },
    ),
    ("integer or string", said(INT_OR_STRING), ..., INT_OR_STRING),
    ("optional integer or string", said(INT_OR_STRING) | None, None, INT_OR_STRING),
    ("another API's object", said(PRESERVED), ..., PRESERVED),
]


@pytest.mark.parametrize(
    ("annotation", "default", "expected"),
    [row[1:] for row in REWRITTEN],
    ids=[row[0] for row in REWRITTEN],
)
def test_rewritten(annotation: Any, default: Any, expected: Schema) -> None:
    assert member(annotation, default) == expected


def test_parts_are_inlined_and_their_own_defaults_kept() -> None:
    size = {"description": "How large.", "type": "integer", "minimum": 1, "default": 1}
    part = {"description": "A part.", "type": "object", "properties": {"size": size}}
    assert member(Inner) == part
    assert member(Inner | None, None) == part
    twice = structural(create_model("Twice", __base__=Closed, a=(Inner, ...), b=(Inner, ...)))
    assert twice["properties"] == {"a": part, "b": part}


def test_a_fields_docstring_wins_over_its_types() -> None:
    class Outer(Closed):
        """Outer."""

        part: Inner
        """This one."""

    schema: Any = structural(Outer)
    assert schema["description"] == "Outer."
    assert schema["properties"]["part"]["description"] == "This one."


def test_names_are_those_of_the_wire_and_required_only_without_default() -> None:
    class Two(Closed):
        needed_word: Short
        other_word: Short | None = None

    schema: Any = structural(Two)
    assert list(schema["properties"]) == ["neededWord", "otherWord"]
    assert schema["required"] == ["neededWord"]


def test_a_default_says_only_what_absence_does_not() -> None:
    class Outer(Closed):
        nothing: Short | None = None
        none: Annotated[tuple[Short, ...], Field(max_length=1)] = ()

    assert "default" not in member(Outer, Outer())
    assert member(Inner, Inner(size=2))["default"] == {"size": 2}


def test_without_defaults_absent_stays_absent() -> None:
    assert "default" not in member(Short, "x", defaults=False)
    assert "default" not in member(Inner, Inner(), defaults=False)["properties"]["size"]


def test_rules_of_a_type_are_taken_over() -> None:
    rule: Any = {"rule": "has(self.word)", "message": "no word"}

    class Ruled(Closed):
        model_config = ConfigDict(json_schema_extra={"x-kubernetes-validations": [rule]})
        word: Short | None = None

    assert structural(Ruled)["x-kubernetes-validations"] == [rule]


def items_by(*keys: str) -> Any:
    extra: Any = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}
    return Annotated[tuple[Keyed, ...], Field(max_length=2, json_schema_extra=extra)]


def test_a_list_of_type_map_keeps_its_keys() -> None:
    schema = member(items_by("name"))
    assert schema["x-kubernetes-list-type"] == "map"
    assert schema["x-kubernetes-list-map-keys"] == ["name"]


REFUSED: list[tuple[str, Any, Any, str]] = [
    ("string without bound", str, ..., "Model.field: a string needs `maxLength`"),
    ("list without bound", tuple[Short, ...], ..., "Model.field: an array needs `maxItems`"),
    ("map without bound", dict[str, Short], ..., "Model.field: a map needs `maxProperties`"),
    (
        "item without bound",
        Annotated[tuple[str, ...], Field(max_length=1)],
        ...,
        "Model.field[]: a string needs `maxLength`",
    ),
    ("value without bound", dict[str, str], ..., "Model.field.*: a string needs `maxLength`"),
    ("pair", tuple[Short, Short], ..., "a CRD cannot express `prefixItems`"),
    ("union", Short | int, ..., "a CRD has no unions"),
    ("optional union", Short | int | None, None, "a CRD has no unions"),
    (
        "tagged union",
        Annotated[Cat | Dog, Field(discriminator="kind")],
        ...,
        "a CRD cannot express `discriminator`",
    ),
    ("null that must be said", Short | None, ..., "null is a value here"),
    ("null that differs from absence", Short | None, "x", "null is a value here"),
    (
        "null in a list",
        Annotated[tuple[Short | None, ...], Field(max_length=1)],
        ...,
        "Model.field[]: null is a value here",
    ),
    ("anything", Any, ..., "Model.field: a CRD needs exactly one type"),
    ("null alone", None, ..., "Model.field: a CRD needs exactly one type"),
    ("any object", dict[str, Any], ..., "Model.field: a CRD cannot express `additionalProperties`"),
    ("no members", Empty, ..., "Model.field: an object needs members"),
    ("format", date, ..., "does not check the format `date`"),
    ("recursion", Endless, ..., "Model.field.again: Endless contains itself"),
    ("unknown keyword", Annotated[Short, Field(examples=["x"])], ..., "cannot express `examples`"),
    ("key that may lack", items_by("other"), ..., "keys, each a required member"),
    ("no key", items_by(), ..., "keys, each a required member"),
    (
        "integer or string without bound",
        said({k: v for k, v in INT_OR_STRING.items() if k != "maxLength"}),
        ...,
        "Model.field: an integer or string needs `maxLength`",
    ),
    (
        "integer or string without its form",
        said({"x-kubernetes-int-or-string": True, "maxLength": 8}),
        ...,
        "Model.field: an integer or string needs `anyOf`",
    ),
    (
        "another union in that place",
        said({**INT_OR_STRING, "anyOf": [{"type": "boolean"}, {"type": "string"}]}),
        ...,
        "a CRD cannot express `anyOf`",
    ),
]


@pytest.mark.parametrize(
    ("annotation", "default", "words"),
    [row[1:] for row in REFUSED],
    ids=[row[0] for row in REFUSED],
)
def test_refused_with_the_fields_path(annotation: Any, default: Any, words: str) -> None:
    with pytest.raises(NotStructural) as refusal:
        member(annotation, default)
    assert words in str(refusal.value)


def test_an_object_is_either_a_record_or_a_map() -> None:
    class Both(BaseModel):
        model_config = ConfigDict(json_schema_extra={"additionalProperties": {"type": "integer"}})
        word: Short

    with pytest.raises(NotStructural, match="additionalProperties"):
        structural(Both)


class Told(Closed):
    """What a machine reports."""

    count: int = 0


class Resource(Closed):
    """A resource."""

    model_config = ConfigDict(
        json_schema_extra={"x-kubernetes-validations": [{"message": "own", "rule": "true"}]}
    )
    kind: Literal["Resource"] = "Resource"
    metadata: ObjectMeta
    spec: Inner = Inner()
    status: Told = Told()


def test_a_resource_leaves_metadata_to_kubernetes_and_gives_status_no_defaults() -> None:
    schema: Any = structural_resource(Resource, [("self == oldSelf", "added")])
    assert schema["properties"]["metadata"] == {"type": "object"}
    assert schema["properties"]["kind"] == {"type": "string", "enum": ["Resource"]}
    assert schema["properties"]["spec"]["properties"]["size"]["default"] == 1
    assert schema["properties"]["status"]["properties"]["count"] == {"type": "integer"}
    assert schema["required"] == ["metadata"]
    assert schema["x-kubernetes-validations"] == [
        {"message": "own", "rule": "true"},
        {"message": "added", "rule": "self == oldSelf"},
    ]


def test_a_resource_names_the_faulty_field() -> None:
    class Faulty(Closed):
        spec: Annotated[tuple[str, ...], Field(max_length=1)]

    with pytest.raises(NotStructural, match=r"^Faulty\.spec\[\]: a string needs"):
        structural_resource(Faulty)


def test_a_bare_resource_has_no_empty_keywords() -> None:
    class Bare(Closed):
        spec: Inner = Inner()

    assert set(structural_resource(Bare)) == {"type", "properties"}
