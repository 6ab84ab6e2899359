"""JSON as strict as the contract wants it, and the rescue of a `request_id` (notes §2.1).

The standard decoder collapses duplicate keys, takes NaN, infinities and lone surrogates. Here:
what is not JSON raises `Unreadable`, and nothing is rescued from it; what is JSON but flawed comes
back as a `Document` whose `flaw` names the fault, so that the caller's id can still be echoed.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from pumas_server.contract.bounds import MAX_DEPTH

REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")

#: Digits up to which every integer is within a double.
_SAFE_DIGITS = 308


class Unreadable(Exception):
    """The bytes are not a JSON object that the contract could speak of."""


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON object, with what is wrong with its text and the id that may be echoed."""

    root: dict[str, Any]
    request_id: str | None
    flaw: str | None


def read_document(raw: bytes) -> Document:
    """Decode one request body. Raises `Unreadable` with the reason."""
    if raw.startswith(b"\xef\xbb\xbf"):
        raise Unreadable("the body begins with a byte order mark")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(f"the body is not UTF-8 (byte {error.start})") from None

    duplicate: str | None = None
    last: Sequence[tuple[str, Any]] = ()

    def take_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal duplicate, last
        last = pairs
        members = dict(pairs)
        if duplicate is None and len(members) != len(pairs):
            counts = Counter(name for name, _ in pairs)
            duplicate = next(name for name, count in counts.items() if count > 1)
        return members

    try:
        root = json.loads(
            text,
            object_pairs_hook=take_pairs,
            parse_constant=_refuse_constant,
            parse_int=_bounded_integer,
        )
    except json.JSONDecodeError as error:
        raise Unreadable(
            f"the body is not JSON (line {error.lineno}, column {error.colno}: {error.msg})"
        ) from None
    except RecursionError:
        raise Unreadable(f"the body nests deeper than {MAX_DEPTH}") from None
    if not isinstance(root, dict):
        raise Unreadable("the body is not a JSON object")

    # The decoder closes the root object last, so `last` holds the root's own pairs.
    ids = [value for name, value in last if name == "request_id"]
    request_id = ids[0] if len(ids) == 1 and is_request_id(ids[0]) else None
    flaw = _find_flaw(root)
    if duplicate is not None:
        flaw = f"duplicate field {quoted(duplicate)}"
    return Document(root, request_id, flaw)


def is_request_id(value: object) -> bool:
    """Whether `value` is a caller's correlation id as the contract allows it."""
    return isinstance(value, str) and REQUEST_ID.fullmatch(value) is not None


def quoted(name: str) -> str:
    """A caller's own word inside a message: short, one line, printable."""
    shown = name if len(name) <= 64 else name[:63] + "…"
    return "`" + "".join(c if c.isprintable() else "?" for c in shown) + "`"


def _refuse_constant(literal: str) -> NoReturn:
    raise Unreadable(f"the body is not JSON ({literal} is no JSON number)")


def _bounded_integer(digits: str) -> int | float:
    # What overflows a double is no number to anybody: infinite here, and named as a flaw.
    if len(digits) <= _SAFE_DIGITS or math.isfinite(float(digits)):
        return int(digits)
    return math.inf


def _find_flaw(root: Any) -> str | None:
    """Name a number beyond a double or text outside Unicode. Raises `Unreadable` when too deep."""
    stack: list[tuple[Any, int]] = [(root, 1)]
    flaw: str | None = None
    while stack:
        value, depth = stack.pop()
        if isinstance(value, str):
            if not value.isascii() and flaw is None and _has_surrogate(value):
                flaw = "a string holds half of a surrogate pair"
        elif isinstance(value, float):
            if math.isinf(value) and flaw is None:
                flaw = "a number is too large"
        elif isinstance(value, dict):
            _deep(depth)
            for name, member in value.items():
                if not name.isascii() and flaw is None and _has_surrogate(name):
                    flaw = "a field name holds half of a surrogate pair"
                stack.append((member, depth + 1))
        elif isinstance(value, list):
            _deep(depth)
            stack.extend((item, depth + 1) for item in value)
    return flaw


def _deep(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise Unreadable(f"the body nests deeper than {MAX_DEPTH}")


def _has_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False
