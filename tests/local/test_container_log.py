"""The last words of a container, whatever else its log holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumas_local.container_log import SHOWN, last_line


@pytest.mark.parametrize(
    ("text", "last"),
    [
        (b"", ""),
        (b"\n \n", ""),
        (b"one\ntwo\n\n", "two"),
        (b"one\ntwo", "two"),
        (b"a\x1b[31m", "a\N{REPLACEMENT CHARACTER}[31m"),
        (b"x" * 10_000, "x" * (SHOWN - 1) + "…"),
        (b"long\n" * 10_000 + b"last \xff\n", "last \N{REPLACEMENT CHARACTER}"),
    ],
)
def test_the_last_line_that_says_anything(tmp_path: Path, text: bytes, last: str) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(text)
    assert last_line(log) == last


def test_a_log_that_is_gone_says_nothing(tmp_path: Path) -> None:
    assert last_line(tmp_path / "server.log") == ""
