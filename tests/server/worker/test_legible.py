"""A stranger's text, made fit for a status."""

from __future__ import annotations

import pytest

from pumas_server.worker.legible import legible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("12345678", "12345678"),
        ("123456789", "1234567…"),
        ("a\nb\x1b[", "a\ufffdb\ufffd["),
        ("\udcff", "\ufffd"),
        ("é\N{MUSICAL SYMBOL G CLEF}", "é\N{MUSICAL SYMBOL G CLEF}"),
        ("", ""),
    ],
)
def test_legible(text: str, shown: str) -> None:
    assert legible(text, 8) == shown
