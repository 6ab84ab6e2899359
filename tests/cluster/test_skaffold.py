"""skaffold.yaml: only what skaffold's schema v4beta13 knows, and only what is there to build.

skaffold itself cannot be had from a package index, so the part of its schema that the file uses is
written out here: the members of each section, which the schema closes.
"""

from __future__ import annotations

import re
from copy import deepcopy
from typing import Any

import pytest
import yaml

from support.helm import ROOT, render

FILE: dict[str, Any] = yaml.safe_load((ROOT / "skaffold.yaml").read_text("utf-8"))

#: Members by section; those with a type are checked below, the others are sections.
MEMBERS: dict[str, dict[str, type[Any] | None]] = {
    "config": {
        "apiVersion": str,
        "kind": str,
        "metadata": None,
        "build": None,
        "deploy": None,
        "profiles": list,
    },
    "metadata": {"name": str, "labels": dict, "annotations": dict},
    "build": {
        "artifacts": list,
        "tagPolicy": dict,
        "platforms": list,
        "insecureRegistries": list,
        "local": dict,
    },
    "artifact": {
        "image": str,
        "context": str,
        "docker": None,
        "requires": list,
        "platforms": list,
        "hooks": dict,
        "sync": dict,
        "runtimeType": str,
    },
    "docker": {
        "dockerfile": str,
        "target": str,
        "buildArgs": dict,
        "network": str,
        "noCache": bool,
        "pullParent": bool,
        "cliFlags": list,
        "cacheFrom": list,
        "cacheTo": list,
        "ssh": str,
        "squash": bool,
        "secrets": list,
        "addHost": list,
    },
    "deploy": {
        "helm": None,
        "statusCheck": bool,
        "statusCheckDeadlineSeconds": int,
        "kubeContext": str,
        "tolerateFailuresUntilDeadline": bool,
        "logs": dict,
    },
    "helm": {"releases": list, "flags": dict, "hooks": dict},
    "release": {
        "name": str,
        "chartPath": str,
        "namespace": str,
        "createNamespace": bool,
        "wait": bool,
        "valuesFiles": list,
        "setValues": dict,
        "setValueTemplates": dict,
        "setFiles": dict,
        "version": str,
        "overrides": dict,
        "dependsOn": list,
        "upgradeOnChange": bool,
        "skipBuildDependencies": bool,
        "skipTests": bool,
    },
    "profile": {
        "name": str,
        "patches": list,
        "build": None,
        "deploy": None,
        "activation": list,
        "requiresAllActivations": bool,
    },
    "patch": {"op": str, "path": str, "from": str, "value": object},
}
REQUIRED = {
    "config": {"apiVersion", "kind"},
    "artifact": {"image"},
    "helm": {"releases"},
    "release": {"name"},
    "profile": {"name"},
    "patch": {"path"},
}


def faults(config: dict[str, Any]) -> list[str]:
    """What the schema refuses, by path."""
    found = _section("", "config", config)
    for profile in config.get("profiles", []):
        found += _section(f"profiles.{profile.get('name')}", "profile", profile)
        for patch in profile.get("patches", []):
            found += _section(f"profiles.{profile.get('name')}.patches", "patch", patch)
            if patch.get("op", "replace") not in (
                "add",
                "remove",
                "replace",
                "move",
                "copy",
                "test",
            ):
                found.append(f"profiles.{profile.get('name')}.patches: unknown op")
    return found


def patched(profile: str) -> dict[str, Any]:
    """The configuration with a profile's patches."""
    config = deepcopy(FILE)
    [chosen] = [each for each in FILE["profiles"] if each["name"] == profile]
    for patch in chosen["patches"]:
        *path, last = patch["path"].lstrip("/").split("/")
        assert patch["op"] == "add"
        target: Any = config
        for step in path:
            target = target[int(step) if isinstance(target, list) else step]
        if isinstance(target, list):
            assert last == "-"
            target.append(patch["value"])
        else:
            target[last] = patch["value"]
    return config


def test_the_file_is_what_the_schema_knows() -> None:
    assert FILE["apiVersion"] == "skaffold/v4beta13"
    assert FILE["kind"] == "Config"
    assert faults(FILE) == []
    assert [each["name"] for each in FILE["profiles"]] == ["cpu", "gpu"]


@pytest.mark.parametrize("profile", ["cpu", "gpu"])
def test_a_profile_is_what_the_schema_knows(profile: str) -> None:
    assert faults(patched(profile)) == []


def test_a_misspelt_member_is_found() -> None:
    config = deepcopy(FILE)
    config["build"]["artifacts"][0]["docker"]["dockerFile"] = "x"
    config["deploy"]["helm"]["releases"][0]["wait"] = "yes"
    assert faults(config) == [
        "build.artifacts.0.docker: unknown dockerFile",
        "deploy.helm.releases.0.wait: no bool",
    ]


@pytest.mark.parametrize(
    ("profile", "images"),
    [
        ("cpu", {"pumas-operator": None, "pumas-worker": "cpu"}),
        ("gpu", {"pumas-operator": None, "pumas-worker": "cpu", "pumas-worker-cuda": "cuda"}),
    ],
)
def test_what_is_built_exists(profile: str, images: dict[str, str | None]) -> None:
    artifacts = {each["image"]: each for each in patched(profile)["build"]["artifacts"]}
    assert {image: each["docker"].get("target") for image, each in artifacts.items()} == images
    for each in artifacts.values():
        dockerfile = ROOT / each["context"] / each["docker"]["dockerfile"]
        target = each["docker"].get("target")
        assert target is None or f" AS {target}\n" in dockerfile.read_text("utf-8")


@pytest.mark.parametrize("profile", ["cpu", "gpu"])
def test_what_is_built_is_what_the_chart_runs(profile: str) -> None:
    config = patched(profile)
    [release] = config["deploy"]["helm"]["releases"]
    assert (ROOT / release["chartPath"] / "Chart.yaml").is_file()
    built = {
        each["image"].replace("-", "_"): each["image"] for each in config["build"]["artifacts"]
    }
    arguments: list[str] = []
    for key, value in release.get("setValues", {}).items():
        arguments += ["--set", f"{key}={value}"]
    for key, value in release["setValueTemplates"].items():
        variable = re.fullmatch(r"\{\{\.IMAGE_FULLY_QUALIFIED_(\w+)\}\}", value)
        assert variable, value
        arguments += ["--set", f"{key}=built.example/{built.pop(variable[1])}:1"]
    assert built == {}, "built, and not deployed"
    text = str([each.object for each in render(*arguments)])
    for name in config["build"]["artifacts"]:
        assert f"built.example/{name['image']}:1" in text
    assert "localhost/pumas-worker-cuda" not in text


def _section(path: str, name: str, value: dict[str, Any]) -> list[str]:
    known = MEMBERS[name]
    found = [f"{path}: unknown {each}" for each in value if each not in known]
    found += [f"{path}: lacks {each}" for each in sorted(REQUIRED.get(name, set()) - value.keys())]
    for member, kind in known.items():
        if member in value:
            below = f"{path}.{member}".lstrip(".")
            found += _member(below, member, kind, value[member])
    return found


def _member(path: str, member: str, kind: type[Any] | None, value: Any) -> list[str]:
    if kind is None:
        return _section(path, member, value)
    if not isinstance(value, kind):
        return [f"{path}: no {kind.__name__}"]
    if member not in ("artifacts", "releases"):
        return []
    items: list[Any] = list(value)
    item = member.removesuffix("s")
    return [fault for n, each in enumerate(items) for fault in _section(f"{path}.{n}", item, each)]
