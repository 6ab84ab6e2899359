"""The two members of an OpenAI request that a router needs, and nothing else of it.

The body is scanned, not rebuilt: it goes on byte for byte, and for an `external` server only the
span of the top-level `model` value is replaced.
"""

from __future__ import annotations

import json
import re
from json.decoder import JSONDecoder, scanstring  # type: ignore[attr-defined]
from typing import NamedTuple

from pumas_server.contract.errors import invalid
from pumas_server.contract.json_weight import check_values
from pumas_server.provider.address import Address

#: Values of a forwarded body: a text of a million tokens may be written as their numbers.
MAX_VALUES = 1_048_576

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = JSONDecoder()


class Envelope(NamedTuple):
    """What was read in a request body."""

    address: Address
    members: tuple[tuple[str, object], ...]
    """Name and value of each member of the body, for whoever has to look at more of it."""


def read_envelope(raw: bytes) -> Envelope:
    """Scan a request body. Raises `ContractError` naming what is wrong: request_limit for more

    than `MAX_VALUES` values, invalid_request for anything else.
    """
    check_values(raw, MAX_VALUES)
    try:
        text = raw.decode("utf-8")
        members = _members(text)
    except UnicodeDecodeError as error:
        raise invalid(f"the body is not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise invalid(
            f"the body is not JSON (line {error.lineno}, column {error.colno}: {error.msg})"
        ) from None
    except (RecursionError, ValueError):
        raise invalid("the body nests too deep or holds a number that is too long") from None
    models = [(value, span) for name, value, span in members if name == "model"]
    if not models:
        raise invalid("missing field `model`")
    if len(models) > 1:
        raise invalid("duplicate field `model`")
    model, span = models[0]
    if not isinstance(model, str) or not model:
        raise invalid("`model` needs to be a nonempty string")
    streams = [value for name, value, _ in members if name == "stream"]
    told = tuple((name, value) for name, value, _ in members)
    start, end = _in_bytes(text, *span)
    return Envelope(Address(model, bool(streams) and streams[-1] is True, start, end), told)


def _in_bytes(text: str, start: int, end: int) -> tuple[int, int]:
    if text.isascii():
        return start, end
    begin = len(text[:start].encode())
    return begin, begin + len(text[start:end].encode())


def _members(text: str) -> list[tuple[str, object, tuple[int, int]]]:
    """Name, value and span of each member of the root object."""
    position = _skip(text, 0)
    if text[position : position + 1] != "{":
        raise invalid("the body is not a JSON object")
    position = _skip(text, position + 1)
    members: list[tuple[str, object, tuple[int, int]]] = []
    if text[position : position + 1] == "}":
        return _at_end(text, position + 1, members)
    while True:
        if text[position : position + 1] != '"':
            raise json.JSONDecodeError("Expecting a field name in double quotes", text, position)
        name, position = scanstring(text, position + 1, True)
        position = _expect(text, _skip(text, position), ":")
        start = _skip(text, position)
        value, end = _DECODER.raw_decode(text, start)
        members.append((name, value, (start, end)))
        position = _skip(text, end)
        if text[position : position + 1] == "}":
            return _at_end(text, position + 1, members)
        position = _skip(text, _expect(text, position, ","))


def _at_end(
    text: str, position: int, members: list[tuple[str, object, tuple[int, int]]]
) -> list[tuple[str, object, tuple[int, int]]]:
    position = _skip(text, position)
    if position != len(text):
        raise json.JSONDecodeError("Extra data", text, position)
    return members


def _expect(text: str, position: int, mark: str) -> int:
    if text[position : position + 1] != mark:
        raise json.JSONDecodeError(f"Expecting '{mark}'", text, position)
    return position + 1


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position
