"""Idempotency-Key: what it may be, and what a key stands for. Pure.

The draft of the header wants a string of RFC 9651, in double quotes; many clients send it bare.
Both are taken, and name the same key.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256

from pumas_server.router.lmsp.problems import ProblemCode, ProblemError, canonical

HEADER = "idempotency-key"
MAX_CHARACTERS = 255

_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
_ESCAPE = re.compile(r"\\(.)")
_VISIBLE = re.compile(r"[\x21-\x7e]+")


def read_key(lines: Sequence[bytes]) -> str | None:
    """The key of a request's header lines, None without any. Raises `ProblemError` (400)."""
    if not lines:
        return None
    if len(lines) > 1:
        raise _invalid(f"Idempotency-Key stands there {len(lines)} times, and may stand there once")
    text = lines[0].decode("latin-1").strip(" \t")
    key = text
    if '"' in text:
        whole = _QUOTED.fullmatch(text)
        if whole is None:
            raise _invalid("Idempotency-Key is no string in double quotes")
        key = _ESCAPE.sub(r"\1", whole[1])
    if not key:
        raise _invalid("Idempotency-Key is empty")
    if len(key) > MAX_CHARACTERS:
        raise _invalid(
            f"Idempotency-Key has {len(key)} characters; at most {MAX_CHARACTERS} are allowed"
        )
    if not _VISIBLE.fullmatch(key):
        raise _invalid("Idempotency-Key holds something else than visible ASCII characters")
    return key


def fingerprint(method: str, action: str, model_id: str, body: object) -> str:
    """What a key stands for. Bodies say little here, so what is asked and of whom is part of it."""
    return sha256(canonical([method, action, model_id, body]).encode()).hexdigest()


def _invalid(detail: str) -> ProblemError:
    return ProblemError(ProblemCode.INVALID_REQUEST, detail, param="Idempotency-Key")
