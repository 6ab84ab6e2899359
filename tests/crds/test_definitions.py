"""The two definitions obey the rules of structural schemas and bound everything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest

from pumas_crds.definitions import IMMUTABLE, build_served_models, build_serving_profiles
from pumas_crds.vocabulary import ConditionType

Node: TypeAlias = dict[str, Any]

#: JSONSchemaProps of apiextensions.k8s.io/v1, less what a structural schema may not use.
ALLOWED = {
    "additionalProperties",
    "anyOf",
    "default",
    "description",
    "enum",
    "example",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "externalDocs",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "nullable",
    "pattern",
    "properties",
    "required",
    "title",
    "type",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
}
DEFINITIONS: dict[str, Node] = {
    "ServedModel": build_served_models(),
    "ServingProfile": build_serving_profiles(),
}


def version_of(definition: Node) -> Node:
    (version,) = definition["spec"]["versions"]
    assert isinstance(version, dict)
    return version


def root_of(definition: Node) -> Node:
    root = version_of(definition)["schema"]["openAPIV3Schema"]
    assert isinstance(root, dict)
    return root


def walk(node: Node, path: str) -> Iterator[tuple[str, Node]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from walk(child, f"{path}.{name}")
    if "items" in node:
        yield from walk(node["items"], f"{path}[]")
    if "additionalProperties" in node:
        yield from walk(node["additionalProperties"], f"{path}.*")


NODES = [
    pytest.param(node, id=path)
    for kind, definition in DEFINITIONS.items()
    for path, node in walk(root_of(definition), kind)
]


@pytest.mark.parametrize("node", NODES)
def test_every_node_is_structural(node: Node) -> None:
    assert set(node) <= ALLOWED
    if node.get("x-kubernetes-int-or-string"):
        assert node["anyOf"] == [{"type": "integer"}, {"type": "string"}]
        assert "type" not in node
        return
    assert "anyOf" not in node
    assert node["type"] in {"object", "array", "string", "integer", "number", "boolean"}
    assert not {"properties", "additionalProperties"} <= set(node)
    assert set(node.get("required", [])) <= set(node.get("properties", {}))


@pytest.mark.parametrize("node", NODES)
def test_every_node_is_bounded(node: Node) -> None:
    match node.get("type"):
        case None:
            assert node["maxLength"] > 0
        case "string":
            assert "enum" in node or node["maxLength"] > 0
        case "array":
            assert node["maxItems"] > 0
            assert node["x-kubernetes-list-type"] in {"atomic", "set", "map"}
        case "object" if "additionalProperties" in node:
            assert node["maxProperties"] > 0


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_every_field_is_explained(kind: str) -> None:
    unexplained = [
        path
        for path, node in walk(root_of(DEFINITIONS[kind]), kind)
        if path.count(".") > 1 and not path.endswith(("[]", ".*")) and "description" not in node
    ]
    assert unexplained == []


@pytest.mark.parametrize("kind", DEFINITIONS)
def test_kubernetes_owns_the_metadata(kind: str) -> None:
    assert root_of(DEFINITIONS[kind])["properties"]["metadata"] == {"type": "object"}


def test_names() -> None:
    definition = build_served_models()
    assert definition["metadata"] == {"name": "servedmodels.serving.pumas.dev"}
    spec: Any = definition["spec"]
    assert (spec["group"], spec["scope"]) == ("serving.pumas.dev", "Namespaced")
    assert spec["names"] == {
        "kind": "ServedModel",
        "listKind": "ServedModelList",
        "plural": "servedmodels",
        "singular": "servedmodel",
        "shortNames": ["sm"],
    }
    assert build_serving_profiles()["metadata"] == {"name": "servingprofiles.serving.pumas.dev"}


def test_status_is_a_subresource_of_what_has_one() -> None:
    assert version_of(DEFINITIONS["ServedModel"])["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    }
    assert "subresources" not in version_of(DEFINITIONS["ServingProfile"])


def test_columns_show_fields_that_exist() -> None:
    columns = version_of(DEFINITIONS["ServedModel"])["additionalPrinterColumns"]
    assert [column["name"] for column in columns] == [
        "Alias",
        "Profile",
        "Runtime",
        "State",
        "Servable",
        "Replicas",
        "Age",
        "Device",
        "Context",
        "Reason",
    ]
    wide = [column["name"] for column in columns if column.get("priority") == 1]
    assert wide == ["Device", "Context", "Reason"]
    servable = f'.status.conditions[?(@.type=="{ConditionType.SERVABLE}")].status'
    reason = f'.status.conditions[?(@.type=="{ConditionType.PROGRESSING}")].reason'
    known = {path: node.get("type") for path, node in walk(root_of(DEFINITIONS["ServedModel"]), "")}
    known |= {servable: "string", reason: "string", ".metadata.creationTimestamp": "date"}
    assert {c["jsonPath"]: c["type"] for c in columns}.items() <= known.items()


def test_conditions_are_merged_by_type() -> None:
    status = root_of(DEFINITIONS["ServedModel"])["properties"]["status"]["properties"]
    conditions = status["conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


def test_alias_and_profile_are_immutable_on_their_effective_values() -> None:
    rules = root_of(DEFINITIONS["ServedModel"])["x-kubernetes-validations"]
    assert [(rule["rule"], rule["message"]) for rule in rules[-2:]] == list(IMMUTABLE)
    alias, profile = (rule for rule, _ in IMMUTABLE)
    assert alias == (
        "(has(self.spec.alias) ? self.spec.alias : self.metadata.name)"
        " == (has(oldSelf.spec.alias) ? oldSelf.spec.alias : oldSelf.metadata.name)"
    )
    assert profile == (
        "(has(self.spec.profile) ? self.spec.profile : 'default')"
        " == (has(oldSelf.spec.profile) ? oldSelf.spec.profile : 'default')"
    )


def test_what_rules_read_without_has_is_always_there() -> None:
    spec = root_of(DEFINITIONS["ServedModel"])["properties"]["spec"]["properties"]
    assert spec["runtime"]["default"] == "llama.cpp"
    assert spec["endpoint"]["required"] == ["url"]


def test_the_paths_of_the_scale_subresource_exist() -> None:
    types = {path: node.get("type") for path, node in walk(root_of(DEFINITIONS["ServedModel"]), "")}
    scale = version_of(DEFINITIONS["ServedModel"])["subresources"]["scale"]
    assert [types[path] for path in scale.values()] == ["integer", "integer", "string"]


def test_an_affinity_is_passed_on_whole() -> None:
    spec = root_of(DEFINITIONS["ServingProfile"])["properties"]["spec"]["properties"]
    assert spec["affinity"]["x-kubernetes-preserve-unknown-fields"] is True
    preserved = [
        path
        for kind, definition in DEFINITIONS.items()
        for path, node in walk(root_of(definition), kind)
        if "x-kubernetes-preserve-unknown-fields" in node
    ]
    assert preserved == ["ServingProfile.spec.affinity"]
