"""The two fields of a multipart form that a router needs: `model` and `stream` (RFC 7578).

As of JSON bodies, nothing of the form is rebuilt: it goes on byte for byte, and for an `external`
server only the bytes of the `model` field are replaced. A file in it is passed over, never parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pumas_server.contract.errors import invalid
from pumas_server.provider.address import Address

#: `boundary` of a Content-Type, quoted or not, of at most 70 characters (RFC 2046, 5.1.1).
_BOUNDARY = re.compile(
    r"""^multipart/form-data\s*;(?:.*;)?\s*boundary=(?:"([^"\r\n]{1,70})"|([^\s;"]{1,70}))\s*(?:;|$)""",
    re.IGNORECASE,
)
_NAME = re.compile(rb'(?i)^content-disposition:\s*form-data\s*;(?:.*;)?\s*name="([^"\r\n]*)"')
_FORM = re.compile(r"^\s*multipart/form-data\s*(?:;|$)", re.IGNORECASE)
_PARTS_LIMIT = 64
_HEADER_BYTES = 8192
_FIELD_BYTES = 1024


def read_form(raw: bytes, content_type: str) -> Address:
    """Scan a form. Raises `ContractError` (invalid_request) naming what is wrong."""
    boundary = _BOUNDARY.search(content_type)
    if boundary is None:
        raise invalid("this route takes multipart/form-data with a boundary")
    fields = list(_fields(raw, (boundary[1] or boundary[2]).encode("latin-1", "replace")))
    models = [(start, end) for name, start, end in fields if name == b"model"]
    if not models:
        raise invalid("missing field `model`")
    if len(models) > 1:
        raise invalid("duplicate field `model`")
    start, end = models[0]
    try:
        model = raw[start : min(end, start + _FIELD_BYTES)].decode("utf-8")
    except UnicodeDecodeError:
        model = ""
    if not model or end - start > _FIELD_BYTES:
        raise invalid("`model` needs to be a nonempty string")
    streams = [raw[start:end] for name, start, end in fields if name == b"stream"]
    return Address(model, bool(streams) and streams[-1] == b"true", start, end, in_json=False)


def refuse_form(content_type: str) -> None:
    """Raise `ContractError` (invalid_request) for a body that an engine would read as a form.

    `application/x-www-form-urlencoded` is what `curl -d` says of any body, and no engine reads it.
    """
    if content_type != "application/json" and _FORM.match(content_type):
        raise invalid("this route takes application/json, and the Content-Type is that of a form")


def _fields(raw: bytes, boundary: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Name and span of each field's content."""
    mark = b"--" + boundary
    if not raw.startswith(mark):
        raise invalid("the form does not begin with its boundary")
    at = len(mark)
    for _ in range(_PARTS_LIMIT):
        if raw.startswith(b"--", at):
            return
        if not raw.startswith(b"\r\n", at):
            raise invalid("a boundary of the form does not end its line")
        begin = at + 2
        header_end = raw.find(b"\r\n\r\n", at, begin + _HEADER_BYTES)
        if header_end < 0:
            raise invalid("a part of the form has no header, or too long a one")
        end = raw.find(b"\r\n" + mark, header_end + 2)
        if end < 0:
            raise invalid("the form ends before its last boundary")
        lines = raw[begin:header_end].split(b"\r\n")
        name = next((found[1] for line in lines if (found := _NAME.search(line))), b"")
        yield name, header_end + 4, max(end, header_end + 4)
        at = end + 2 + len(mark)
    raise invalid(f"the form has more than {_PARTS_LIMIT} parts")
