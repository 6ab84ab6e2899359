"""Which distributions our modules import, read from their sources: nothing is imported here."""

from __future__ import annotations

import ast
import re
import sys
from importlib.metadata import packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]


def imports(entries: tuple[str, ...]) -> set[str]:
    """Distributions that the modules import, directly or through other modules of ours."""
    known, seen, found = packages_distributions(), set[str](), set[str]()
    left = list(entries)
    while left:
        module = left.pop()
        if module in seen:
            continue
        seen.add(module)
        path = _source(module)
        assert path, f"there is no module {module}"
        if "." in module:
            left.append(module.rpartition(".")[0])
        for name in _imported(ast.parse(path.read_text("utf-8"))):
            top = name.partition(".")[0]
            if top.startswith("pumas_"):
                left += [name] if _source(name) else []
            elif top not in sys.stdlib_module_names:
                found |= {distribution(each) for each in known[top]}
    return found


def closure(distributions: set[str]) -> set[str]:
    """Distributions with all that they require on this machine."""
    found, left = set[str](), list(distributions)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            wanted = [Requirement(each) for each in requires(name) or ()]
            left += [distribution(each.name) for each in wanted if _applies(each)]
    return found


def _applies(requirement: Requirement) -> bool:
    """Whether it is one on this machine, without any extra."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": ""})


def _imported(tree: ast.AST) -> list[str]:
    names: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                names += [each.name for each in node.names]
            case ast.ImportFrom(module=str(module), level=0):
                names += [module, *(f"{module}.{each.name}" for each in node.names)]
    return names


def _source(module: str) -> Path | None:
    for root in ("crds", "operator", "server"):
        path = ROOT.joinpath(root, *module.split("."))
        for candidate in (path / "__init__.py", path.with_suffix(".py")):
            if candidate.is_file():
                return candidate
    return None


def distribution(requirement: str) -> str:
    """The name in a requirement, in the form that all spellings of it share."""
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name, requirement
    return re.sub(r"[-_.]+", "-", name[0]).lower()
