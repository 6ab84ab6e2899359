"""That no reason is forgotten: each is provoked on the cluster, or it is said here why not."""

from __future__ import annotations

import ast
from pathlib import Path

from pumas_crds.vocabulary import Reason

FOLDER = Path(__file__).parent
NOT_PROVOKED = {
    Reason.PROGRESS_DEADLINE_EXCEEDED: "a rollout may take more than two hours; the Deployment's"
    " own words are a fixture of tests/operator/test_workload_truth.py",
}


def provoked() -> set[Reason]:
    """Every `Reason.X` that a cluster test names."""
    found = set()
    for path in FOLDER.rglob("test_*.py"):
        if path != Path(__file__):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                match node:
                    case ast.Attribute(value=ast.Name(id="Reason"), attr=name):
                        found.add(Reason[name])
    return found


def test_every_reason_is_provoked() -> None:
    assert provoked() == set(Reason) - NOT_PROVOKED.keys()
