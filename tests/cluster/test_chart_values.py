"""The chart's values: closed, all documented, all tried; and what is generated for them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from pumas_crds.serving_profile import ServingProfile
from support.helm import ALL_VALUES, CHART, ROOT, template

SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text("utf-8"))
DEFAULTS: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
EVERY: dict[str, Any] = yaml.safe_load(ALL_VALUES.read_text("utf-8"))


def test_what_is_generated_for_the_chart_has_not_drifted() -> None:
    """The copies of the CRDs, values.schema.json, the table in docs/install.md."""
    done = subprocess.run(
        [sys.executable, "scripts/generate_chart.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def test_every_object_is_closed() -> None:
    # Kubernetes' own affinity is passed on unread, and Helm gives `global` to every chart.
    open_ones = {
        path
        for path, node in _nodes(SCHEMA)
        if node.get("type") == "object" and node.get("additionalProperties", True) is True
    }
    assert open_ones == {".global", "#servingProfileSpec.affinity"}
    for path, node in _nodes(SCHEMA):
        assert "type" in node or "$ref" in node, path


def test_every_value_has_a_default_and_a_description() -> None:
    assert dict(_leaves(SCHEMA, DEFAULTS)).keys() == set(_paths(SCHEMA))
    for path, node in _values(SCHEMA):
        assert node["description"].endswith("."), path


def test_every_value_is_set_in_the_fixture_to_another_than_the_default() -> None:
    defaults, tried = dict(_leaves(SCHEMA, DEFAULTS)), dict(_leaves(SCHEMA, EVERY))
    assert tried.keys() == defaults.keys()
    assert [path for path in tried if tried[path] == defaults[path]] == []


def test_profiles_of_the_chart_are_valid() -> None:
    for name, spec in (DEFAULTS["profiles"] | EVERY["profiles"]).items():
        if spec is not None:
            ServingProfile.model_validate({"metadata": {"name": name}, "spec": spec})


def test_images_are_of_the_charts_own_version() -> None:
    version = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))["appVersion"]
    images = [
        DEFAULTS["image"],
        DEFAULTS["workerImage"],
        DEFAULTS["profiles"]["nvidia"]["images"]["llama.cpp"],
    ]
    assert images == [
        f"localhost/pumas-operator:{version}",
        f"localhost/pumas-worker:{version}",
        f"localhost/pumas-worker-cuda:{version}",
    ]
    pyproject = (ROOT / "pyproject.toml").read_text("utf-8")
    assert f'version = "{version}"' in pyproject


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("imagee=x", "imagee"),
        ("router.replica=3", "replica"),
        ("router.service.prot=80", "prot"),
        ("networkPolicy.callers[0].podSelektor.a=b", "podSelektor"),
        ("operator.tolerations[0].efect=NoSchedule", "efect"),
        ("operator.resources.limit.memory=1Gi", "limit"),
        ("profiles.gpu.nodeSelektor.pool=gpu", "nodeSelektor"),
        ("profiles.gpu.resources.limts.cpu=1", "limts"),
        ("profiles.Not_A_Name.rollout=surge", "Not_A_Name"),
        ("profiles.gpu.rollout=sometimes", "rollout"),
        ("image=localhost/pumas-operator:latest", "/image"),
        ("image=localhost/pumas-operator", "/image"),
        ("operator.replicas=3", "/operator/replicas"),
        ("operator.podLabels.app\\.kubernetes\\.io/name=x", "app.kubernetes.io/name"),
        ("router.bufferBytes=1", "/router/bufferBytes"),
        ("watchNamespaces={a,a}", "/watchNamespaces"),
        ("watchNamespaces={Team}", "/watchNamespaces/0"),
        ("propagationSeconds=-1", "/propagationSeconds"),
    ],
)
def test_a_wrong_value_is_refused_and_named(value: str, told: str) -> None:
    done = template("--set", value)
    assert done.returncode != 0
    assert told in done.stderr, done.stderr


def _nodes(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema in the schema, with its path."""
    yield from _below("", schema)
    for name, node in schema["definitions"].items():
        yield from _below(f"#{name}", node)


def _below(path: str, node: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, member in node.get("properties", {}).items():
        yield from _below(f"{path}.{name}", member)
    for keyword in ("items", "additionalProperties"):
        if isinstance(node.get(keyword), dict):
            yield from _below(f"{path}[]", node[keyword])


def _values(schema: dict[str, Any], above: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """What can be set, with its path and schema."""
    for name, node in schema["properties"].items():
        if "properties" in node:
            yield from _values(node, f"{above}{name}.")
        elif name != "global":
            yield f"{above}{name}", node


def _paths(schema: dict[str, Any]) -> Iterator[str]:
    return (path for path, _ in _values(schema))


def _leaves(
    schema: dict[str, Any], values: dict[str, Any], above: str = ""
) -> Iterator[tuple[str, Any]]:
    """The values that are set, down to what the schema gives a description."""
    for name, value in values.items():
        node = schema["properties"][name]
        if "properties" in node:
            yield from _leaves(node, value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value
