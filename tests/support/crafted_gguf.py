"""GGUF files written byte by byte, so that tests can say what no honest writer would."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

U8, I32, U32, F32, BOOL, STRING, ARRAY, U64, F64 = 0, 5, 4, 6, 7, 8, 9, 10, 12
CODES = {U8: "<B", I32: "<i", U32: "<I", F32: "<f", BOOL: "<?", U64: "<Q", F64: "<d"}


def string(text: str | bytes, *, claim: int | None = None) -> bytes:
    """A string; `claim` is a length other than its own."""
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw) if claim is None else claim) + raw


def entry(key: str | bytes, type_id: int, value: bytes) -> bytes:
    """A metadata entry whose value is encoded already."""
    return string(key) + struct.pack("<I", type_id) + value


def scalar(key: str, type_id: int, value: int | float | bool) -> bytes:
    return entry(key, type_id, struct.pack(CODES[type_id], value))


def text(key: str | bytes, value: str | bytes) -> bytes:
    return entry(key, STRING, string(value))


def strings(key: str, values: Iterable[str], *, claim: int | None = None) -> bytes:
    encoded = [string(value) for value in values]
    count = len(encoded) if claim is None else claim
    return entry(key, ARRAY, struct.pack("<IQ", STRING, count) + b"".join(encoded))


@dataclass(frozen=True)
class Row:
    """One row of the tensor table."""

    name: str | bytes = "a.weight"
    shape: tuple[int, ...] = (8, 4)
    type_id: int = 0
    offset: int = 0

    def encode(self) -> bytes:
        dimensions = struct.pack(f"<I{len(self.shape)}Q", len(self.shape), *self.shape)
        return string(self.name) + dimensions + struct.pack("<IQ", self.type_id, self.offset)


def gguf_file(
    metadata: Iterable[bytes] = (),
    rows: Iterable[Row] = (),
    *,
    data: int = 0,
    magic: bytes = b"GGUF",
    version: bytes = b"\x03\0\0\0",
    metadata_count: int | None = None,
    row_count: int | None = None,
    alignment: int = 32,
) -> bytes:
    """A file with `data` bytes of weights; the counts may lie."""
    metadata, rows = list(metadata), list(rows)
    head = magic + version
    head += struct.pack("<Q", len(rows) if row_count is None else row_count)
    head += struct.pack("<Q", len(metadata) if metadata_count is None else metadata_count)
    head += b"".join(metadata) + b"".join(row.encode() for row in rows)
    return head + bytes(-len(head) % alignment) + bytes(data)


#: What a file needs to be a model at all.
MODEL = (text("general.architecture", "tiny"), text("tokenizer.ggml.model", "gpt2"))
