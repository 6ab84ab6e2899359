"""The images' recipes: what a Dockerfile must and must not say, and what an image installs."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

import pytest

from pumas_operator.pod_template import USER
from support.distributions import closure, distribution, imports
from support.helm import ROOT

DOCKERFILES = ("operator/Dockerfile", "server/Dockerfile")
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
GROUPS: dict[str, list[str]] = PYPROJECT["dependency-groups"]

#: What each group is for: the modules that an image starts.
STARTED = {
    "operator": ("pumas_operator.__main__", "pumas_operator.install_profiles"),
    "router": ("pumas_server.router.__main__",),
    "worker": (
        "pumas_server.worker.__main__",
        "pumas_server.worker.engine_xllama",
        "pumas_server.worker.onnx.__main__",
    ),
}
#: Looked for by name at run time: uvicorn's fast parts.
BY_NAME = {"httptools", "uvloop"}
LABELS = ("title", "description", "licenses", "version", "revision", "base.name")


@dataclass(frozen=True)
class Stage:
    """One `FROM` and what follows it."""

    base: str
    name: str
    steps: tuple[tuple[str, str], ...]

    def all(self, instruction: str) -> list[str]:
        return [said for each, said in self.steps if each == instruction]


def stages(file: str) -> list[Stage]:
    """The stages of a Dockerfile; the first one is what stands before any `FROM`."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / file).read_text("utf-8"), flags=re.MULTILINE)
    found = [Stage("", "", ())]
    for line in re.sub(r"\\\n", " ", text).splitlines():
        instruction, _, said = line.strip().partition(" ")
        said = " ".join(said.split())
        if instruction == "FROM":
            base, _, name = said.partition(" AS ")
            found.append(Stage(base, name, ()))
        elif instruction:
            last = found.pop()
            found.append(Stage(last.base, last.name, (*last.steps, (instruction, said))))
    return found


def finals(file: str) -> list[Stage]:
    """The stages that become images."""
    return [stage for stage in stages(file)[1:] if not stage.name.endswith("build")]


ALL_FINALS = [(file, stage) for file in DOCKERFILES for stage in finals(file)]
each_image = pytest.mark.parametrize(
    "stage", [pytest.param(stage, id=f"{file}:{stage.name}") for file, stage in ALL_FINALS]
)
each_file = pytest.mark.parametrize("file", DOCKERFILES)


def test_there_are_three_images() -> None:
    assert [(file, stage.name) for file, stage in ALL_FINALS] == [
        ("operator/Dockerfile", ""),
        ("server/Dockerfile", "cuda"),
        # Last: what is built when no target is named.
        ("server/Dockerfile", "cpu"),
    ]


@each_image
def test_an_image_runs_as_nobody_in_particular(stage: Stage) -> None:
    assert stage.all("USER") == [f"{USER}:{USER}"]
    after = [instruction for instruction, _ in stage.steps]
    assert "RUN" not in after[after.index("USER") :]


@each_image
def test_an_image_carries_what_was_installed_and_no_more(stage: Stage) -> None:
    for step in stage.all("RUN"):
        assert "pip" not in step
        _installs_cleanly(step)
    for step in stage.all("COPY"):
        assert re.fullmatch(r"--from=(cpu-|cuda-)?build /opt/(pumas|own) /opt/pumas", step)


@each_image
def test_what_a_commit_changes_is_in_a_layer_of_its_own(stage: Stage) -> None:
    """So that only that goes over the wire, and into the cluster, when nothing else has changed."""
    assert [step.split()[1] for step in stage.all("COPY")] == ["/opt/pumas", "/opt/own"]


@each_image
def test_an_image_can_live_without_writing(stage: Stage) -> None:
    variables = " ".join(stage.all("ENV"))
    assert "PYTHONDONTWRITEBYTECODE=1" in variables
    assert "HOME=/tmp" in variables
    assert "PYTHONPATH=/opt/pumas" in variables
    assert stage.all("VOLUME") == []


@each_image
def test_an_image_says_what_it_is(stage: Stage) -> None:
    [said] = stage.all("LABEL")
    for label in LABELS:
        assert f'org.opencontainers.image.{label}="' in said
    assert f"ARG VERSION={PYPROJECT['project']['version']}" in (
        f"ARG {each}" for each in stage.all("ARG")
    )


@each_file
def test_bases_are_arguments_with_a_version(file: str) -> None:
    head, *others = stages(file)
    arguments = dict(each.split("=", 1) for each in head.all("ARG"))
    for stage in others:
        name = re.fullmatch(r"\$\{([A-Z_]+)\}", stage.base)
        assert name, f"{file}: {stage.base} is no argument"
        base = arguments[name[1]]
        assert re.search(r":[^/:]*[0-9][^/:]*$|@sha256:[0-9a-f]{64}$", base), base
        assert not base.endswith(":latest")


@each_file
def test_builds_keep_no_cache_and_take_pinned_packages(file: str) -> None:
    builds = [stage for stage in stages(file)[1:] if stage.name.endswith("build")]
    assert builds
    for stage in builds:
        assert "PIP_NO_CACHE_DIR=1" in " ".join(stage.all("ENV"))
        assert 'PIP_ARGS=""' in stage.all("ARG")
        installs = [
            part for step in stage.all("RUN") for part in step.split("&&") if "pip install" in part
        ]
        assert len(installs) == 2
        for step in installs:
            assert re.search(r"\$\{PIP_ARGS\} --target /opt/(pumas|own) ", step)
            assert "-c constraints.txt" in step or step.rstrip().endswith("--no-deps .")
        for step in stage.all("RUN"):
            _installs_cleanly(step)


@each_file
def test_nothing_is_fetched_from_elsewhere(file: str) -> None:
    for stage in stages(file):
        assert stage.all("ADD") == []
        assert not any(re.search(r"\b(curl|wget|git)\b", step) for step in stage.all("RUN"))


def test_the_context_is_what_the_images_need() -> None:
    lines = [
        line
        for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
        if line and not line.startswith("#")
    ]
    assert lines[0] == "*" and lines[-1] == "**/__pycache__"
    allowed = [line.removeprefix("!") for line in lines[1:-1]]
    assert all(line.startswith("!") for line in lines[1:-1])
    packages = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert set(packages) <= set(allowed)
    for path in allowed:
        assert path == "wheels" or (ROOT / path).exists(), path
    for path in ("tests", ".git", ".venv", ".cache"):
        assert not any(fnmatch(path, pattern) for pattern in allowed)


# Dependency groups


def test_a_persons_install_has_all_that_the_images_have() -> None:
    everything = set(PYPROJECT["project"]["dependencies"])
    for group in ("operator", "router", "worker"):
        assert set(GROUPS[group]) <= everything, group


def test_the_engine_is_in_no_image_but_its_own() -> None:
    holders = {group for group, those in GROUPS.items() if "xllamacpp" in those}
    assert holders == {"worker"}


@pytest.mark.parametrize("group", STARTED)
def test_a_group_is_what_its_processes_import(group: str) -> None:
    installed = {distribution(requirement) for requirement in GROUPS[group]}
    imported = imports(STARTED[group])
    missing = imported - closure(installed)
    assert not missing, f"{group} imports {sorted(missing)}, which its image does not install"
    needless = installed - imported - BY_NAME
    assert not needless, f"{group} installs {sorted(needless)}, which nothing imports"


def test_every_group_is_pinned() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pinned = {distribution(line) for line in lines}
    for group, those in GROUPS.items():
        assert {distribution(each) for each in those} <= pinned, group


def _installs_cleanly(step: str) -> None:
    if "apt-get install" in step:
        assert "apt-get update" in step
        assert "--no-install-recommends" in step
        assert "rm -rf /var/lib/apt/lists/*" in step
    assert not re.search(r"\b(gcc|g\+\+|cmake|build-essential|-dev)\b", step)
