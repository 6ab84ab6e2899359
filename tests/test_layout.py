"""What no linter sees: where packages may not be, and how long a file may grow."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINES = 320


def test_operator_is_no_package_because_it_would_shadow_the_standard_library() -> None:
    assert (ROOT / "operator" / "pumas_operator").is_dir()
    assert not (ROOT / "operator" / "__init__.py").exists()


def test_no_package_among_the_tests() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_source_files_stay_short() -> None:
    sources = [
        path for root in ("crds", "operator", "server") for path in (ROOT / root).rglob("*.py")
    ]
    assert sources
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in sources}
    long = {str(path.relative_to(ROOT)): n for path, n in lengths.items() if n > LINES}
    assert not long, f"over {LINES} lines: {long}"
