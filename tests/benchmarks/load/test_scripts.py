"""Scripts that make load: what one printed, and what becomes of one that fails or is left."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from load.scripts import ended, generator, printed

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux pins processes to cores"
)


def script(folder: Path, text: str) -> str:
    file = folder / "script.py"
    file.write_text(text)
    return str(file)


def test_what_it_printed_last_is_read(tmp_path: Path) -> None:
    says = "import sys, json\nprint('begins')\nprint(json.dumps({'told': sys.argv[1:]}))\n"
    assert printed(script(tmp_path, says), "a", 2) == {"told": ["a", "2"]}


def test_one_that_fails_is_an_error_with_what_it_complained_of(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no provider answers"):
        printed(script(tmp_path, "raise SystemExit('no provider answers')\n"))


def test_one_that_is_left_does_not_run_on(tmp_path: Path) -> None:
    endless = script(tmp_path, "import time\nprint('begins', flush=True)\ntime.sleep(3600)\n")
    with ended(generator(endless)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
    assert process.returncode is not None
    process.communicate()
