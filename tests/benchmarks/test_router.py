"""The router's benchmark says what it lacks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.readme import ROOT


def test_without_wrk_it_says_how_to_get_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks/router.py"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and done.stderr == ""
    assert "wrk is needed: apt-get install wrk" in done.stdout
