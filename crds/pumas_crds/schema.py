"""From pydantic models to the structural schemas that apiextensions.k8s.io/v1 demands. Pure.

pydantic's JSON Schema is rewritten node by node: references are inlined, `X | None = None` becomes
an X that is merely not required, `const` an `enum` of one. The rewriter is closed, as the API
server is: what a CRD cannot express, or would leave without a bound, is refused with the field's
path when the CRD is generated, not when somebody installs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pydantic import BaseModel

from pumas_crds.descriptions import describe_fields
from pumas_crds.resource import Rule

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
Schema: TypeAlias = "dict[str, Json]"

#: The longest RFC 3339 time with nanoseconds and an offset has 35 characters.
_DATE_TIME_LENGTH = 64

#: Keywords whose values are taken over unread.
_COPIED = frozenset(
    {
        "description",
        "enum",
        "format",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "multipleOf",
        "pattern",
        "required",
        "type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    }
)

#: The one union that a CRD knows, in the one form that the API server takes.
_INT_OR_STRING: list[Json] = [{"type": "integer"}, {"type": "string"}]

#: Members last, so that in YAML a node's own properties are not pages below its name.
_LAST = ("required", "properties", "additionalProperties", "items")


class NotStructural(TypeError):
    """A type that no CRD can express, or that would have no bound."""

    def __init__(self, path: str, fault: str) -> None:
        super().__init__(f"{path}: {fault}")


def structural(model: type[BaseModel], *, defaults: bool = True) -> Schema:
    """The structural schema of a model. Raises NotStructural, naming the field.

    `defaults=False` is for what machines report: there, absent means not observed, and the API
    server must not fill it in.
    """
    document, definitions = _document(model)
    return _Rewriter(definitions, defaults).node(document, model.__name__)


def structural_resource(model: type[BaseModel], rules: Sequence[Rule] = ()) -> Schema:
    """The schema of a whole resource, with further CEL rules `(rule, message)` at its root.

    `metadata` is an object and no more, since Kubernetes owns it and forbids restrictions on it;
    `apiVersion`, `kind` and `status` have no defaults.
    """
    document, definitions = _document(model)
    given, reported = (_Rewriter(definitions, defaults) for defaults in (True, False))
    members: dict[str, Json] = {}
    for name, node in _objects(document["properties"]).items():
        path = f"{model.__name__}.{name}"
        match name:
            case "metadata":
                members[name] = {"type": "object"}
            case "spec":
                members[name] = given.node(node, path)
            case _:
                members[name] = reported.node(node, path)
    own = document.get("x-kubernetes-validations", [])
    added: list[Json] = [{"message": message, "rule": rule} for rule, message in rules]
    root: Schema = {
        "description": document.get("description"),
        "type": "object",
        "x-kubernetes-validations": [*(own if isinstance(own, list) else []), *added],
        "required": document.get("required"),
        "properties": members,
    }
    return {keyword: value for keyword, value in root.items() if value not in (None, [])}


@dataclass(frozen=True)
class _Rewriter:
    definitions: Mapping[str, Schema]
    defaults: bool

    def node(self, node: Schema, path: str, within: tuple[str, ...] = ()) -> Schema:
        """One node and all below it; `within` names the types that it is a part of."""
        node, within = self._resolved(node, path, within)
        out: Schema = {}
        for keyword, value in node.items():
            match keyword, value:
                case "title", _:
                    continue
                case "properties", dict(members):
                    out[keyword] = {
                        name: self.node(member, f"{path}.{name}", within)
                        for name, member in _objects(members).items()
                    }
                case "additionalProperties", False if "properties" in node:
                    continue  # the API server prunes unknown fields, or refuses them if asked to
                case "additionalProperties", dict(member) if "properties" not in node:
                    out[keyword] = self.node(member, f"{path}.*", within)
                case "items", dict(member):
                    out[keyword] = self.node(member, f"{path}[]", within)
                case "anyOf", list(arms) if arms == _INT_OR_STRING:
                    out[keyword] = arms
                case "const", _:
                    out["enum"] = [value]
                case "exclusiveMinimum" | "exclusiveMaximum", int() | float():
                    # A number in JSON Schema, a boolean beside the number in apiextensions v1.
                    out |= {keyword.removeprefix("exclusive").lower(): value, keyword: True}
                case "default", _:
                    said = _said(value)
                    if self.defaults and said is not None:
                        out[keyword] = said
                case _ if keyword in _COPIED:
                    out[keyword] = value
                case _:
                    raise NotStructural(path, f"a CRD cannot express `{keyword}`")
        return _ordered(_bounded(out, path))

    def _resolved(
        self, node: Schema, path: str, within: tuple[str, ...]
    ) -> tuple[Schema, tuple[str, ...]]:
        """Follow references and take the null out of optional fields."""
        while True:
            match node:
                case {"$ref": str(reference), **beside}:
                    name = reference.rpartition("/")[2]
                    if name in within:
                        raise NotStructural(path, f"{name} contains itself, endlessly in a CRD")
                    within = (*within, name)
                    node = {**self.definitions[name], **beside}
                case {"x-kubernetes-int-or-string": True}:
                    return node, within
                case {"anyOf": list(arms), **beside}:
                    values = [arm for arm in arms if arm != {"type": "null"}]
                    if len(values) != 1 or not isinstance(values[0], dict):
                        raise NotStructural(
                            path, "a CRD has no unions: use one optional field for each variant"
                        )
                    if beside.pop("default", ...) is not None:
                        raise NotStructural(
                            path, "null is a value here, but a CRD knows absence only"
                        )
                    node = {**values[0], **beside}
                case _:
                    return node, within


def _bounded(node: Schema, path: str) -> Schema:
    """The node with computed bounds; refused when it has no type or could grow for ever."""
    match node:
        case {"type": "string", "enum": _}:
            return node
        case {"x-kubernetes-int-or-string": True}:
            _demand(node, path, "anyOf", "an integer or string")
            _demand(node, path, "maxLength", "an integer or string")
            return node
        case {"type": "object", "x-kubernetes-preserve-unknown-fields": True}:
            return node  # another API's object: its bounds are the API server's own
        case {"type": "string", "format": "date-time"}:
            return {"maxLength": _DATE_TIME_LENGTH, **node}
        case {"format": form}:
            raise NotStructural(path, f"the API server does not check the format `{form}`")
        case {"type": "string"}:
            _demand(node, path, "maxLength", "a string")
            return node
        case {"type": "integer" | "number" | "boolean"}:
            return node
        case {"type": "array"}:
            _demand(node, path, "items", "an array")
            _demand(node, path, "maxItems", "an array")
            return {"x-kubernetes-list-type": "atomic", **_keyed(node, path)}
        case {"type": "object", "properties": dict(members)} if members:
            return node
        case {"type": "object", "additionalProperties": _}:
            _demand(node, path, "maxProperties", "a map")
            return node
        case {"type": "object"}:
            raise NotStructural(path, "an object needs members")
        case _:
            raise NotStructural(path, "a CRD needs exactly one type")


def _demand(node: Schema, path: str, keyword: str, what: str) -> None:
    if keyword not in node:
        raise NotStructural(path, f"{what} needs `{keyword}`")


def _keyed(node: Schema, path: str) -> Schema:
    """A list of type map, checked: without its keys an item could not be told from another."""
    match node:
        case {"x-kubernetes-list-type": "map", "items": dict(item)}:
            required, keys = item.get("required"), node.get("x-kubernetes-list-map-keys")
            if not (isinstance(keys, list) and keys and isinstance(required, list)):
                raise NotStructural(path, "a list of type map needs keys, each a required member")
            if any(key not in required for key in keys):
                raise NotStructural(path, "a list of type map needs keys, each a required member")
    return node


def _said(default: Json) -> Json:
    """What a default says beyond absence: nulls and empty containers say nothing."""
    match default:
        case dict():
            members = {name: _said(value) for name, value in default.items()}
            return {name: said for name, said in members.items() if said is not None} or None
        case []:
            return None
        case _:
            return default


def _ordered(node: Schema) -> Schema:
    own = ["description", "type", *sorted(node.keys() - {"description", "type", *_LAST}), *_LAST]
    return {keyword: node[keyword] for keyword in own if keyword in node}


def _document(model: type[BaseModel]) -> tuple[Schema, Mapping[str, Schema]]:
    """A model's JSON Schema, and the definitions that its references name."""
    describe_fields(model)
    document: Schema = model.model_json_schema(by_alias=True, mode="validation")
    return document, _objects(document.pop("$defs", {}))


def _objects(value: Json) -> dict[str, Schema]:
    """The members of an object whose members are schemas."""
    members = value if isinstance(value, dict) else {}
    return {name: member for name, member in members.items() if isinstance(member, dict)}
