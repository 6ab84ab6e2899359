"""The chart as Helm sees it: linted, and rendered into the objects that it would apply."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "pumas"
ALL_VALUES = ROOT / "tests" / "cluster" / "values-all.yaml"
#: Where `make cluster` puts it.
OURS = ROOT / ".cache" / "kube" / "bin" / "helm"

Object: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Rendered:
    """One object, and the template that it came from."""

    template: str
    object: Object

    @property
    def kind(self) -> str:
        kind: str = self.object["kind"]
        return kind

    @property
    def name(self) -> str:
        name: str = self.object["metadata"]["name"]
        return name

    @property
    def namespace(self) -> str:
        namespace: str = self.object["metadata"].get("namespace", "")
        return namespace


def find_helm() -> str:
    """The program. Its absence is a failure, never a skipped test."""
    found = os.environ.get("HELM") or shutil.which("helm") or (OURS.is_file() and str(OURS))
    assert found, (
        "helm was not found: name it in HELM, put it on PATH, or run `make cluster`,"
        " which puts it into .cache/kube/bin"
    )
    return found


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it; what it said is in the result, whether it failed or not."""
    return subprocess.run(
        [find_helm(), *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60
    )


def template(*arguments: str, release: str = "pumas") -> subprocess.CompletedProcess[str]:
    """`helm template` of the chart, for a cluster that the chart supports."""
    return helm(
        *("template", release, str(CHART), "--namespace", "pumas-system"),
        *("--kube-version", "1.34.0", *arguments),
    )


@cache
def render(*arguments: str, release: str = "pumas") -> tuple[Rendered, ...]:
    """The objects of the chart with those arguments. Shared by the tests: to be read only."""
    done = template(*arguments, release=release)
    assert done.returncode == 0, done.stderr
    return tuple(_objects(done.stdout))


def _objects(text: str) -> Iterator[Rendered]:
    # A later document of one file has no comment of its own.
    path = ""
    for document in text.split("\n---\n"):
        for line in document.splitlines():
            if line.startswith("# Source: pumas/templates/"):
                path = line.removeprefix("# Source: pumas/templates/")
        read = yaml.safe_load(document)
        if read is not None:
            yield Rendered(path, read)


def of_kind(objects: Sequence[Rendered], kind: str) -> dict[str, Object]:
    """Objects of a kind, by name."""
    return {each.name: each.object for each in objects if each.kind == kind}


def pods(objects: Sequence[Rendered]) -> Mapping[str, Object]:
    """Pod templates, by the name of their Deployment or Job."""
    return {
        each.name: each.object["spec"]["template"]
        for each in objects
        if each.kind in ("Deployment", "Job")
    }
