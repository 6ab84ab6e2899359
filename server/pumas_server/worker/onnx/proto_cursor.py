"""Steps through the bytes of a protobuf message, each step checked before it is taken.

The wire format alone is known here: keys, varints, lengths. Bytes come in order from a `Reader`,
which may be a file or a server far away; what is stepped over is never read when it is long.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Protocol

from pumas_crds.vocabulary import Reason
from pumas_server.worker.header_fault import EndsInHeader, HeaderFault, no_model

#: Read at once. Shorter gaps are read through: asking again costs more than their bytes.
BLOCK_BYTES = 1 << 16
#: Fields of all messages together: twenty times a large model's, some seconds' work.
FIELDS_LIMIT = 4 << 20
#: Longer texts, such as documentation, are not kept.
TEXT_BYTES_LIMIT = 4096
#: Of all texts together, kept ones and others: a hundred times a large model's.
TEXTS_BYTES_LIMIT = 64 << 20
_VARINT_BYTES = 10


class Reader(Protocol):
    """The bytes of one file, from its beginning on, once."""

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        ...

    def take(self, size: int) -> bytes:
        """The next `size` bytes; never asked for more than the file has."""
        ...

    def skip(self, size: int) -> None:
        """Pass over the next `size` bytes; never asked for more than the file has."""
        ...


class Wire(IntEnum):
    """How a field's value is encoded."""

    VARINT = 0
    FIXED64 = 1
    BYTES = 2
    FIXED32 = 5


_WIRES = {int(wire): wire for wire in Wire}


class ProtoCursor:
    """A position in the bytes; every read is checked against the end of the file."""

    __slots__ = ("_block", "_block_at", "_fields_left", "_reader", "_texts_left", "at", "end")

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._block = b""
        self._block_at = 0
        self._fields_left = FIELDS_LIMIT
        self._texts_left = TEXTS_BYTES_LIMIT
        self.at = 0
        self.end = reader.size

    def fields(self, end: int) -> Iterator[tuple[int, Wire]]:
        """Number and encoding of each field up to `end`.

        Whoever takes one must read its value, or `pass_over` it, before taking the next.
        """
        while self.at < end:
            if not self._fields_left:
                raise no_model(f"the file has more than {FIELDS_LIMIT} fields")
            self._fields_left -= 1
            key = self.varint()
            wire = _WIRES.get(key & 7)
            if wire is None or not key >> 3:
                raise no_model("the file is no ONNX model: it is not encoded as one")
            yield key >> 3, wire
        if self.at != end:
            raise no_model("a field of the file is longer than the message it is in")

    def message(self, wire: Wire, end: int) -> int:
        """Enter a value that has a length, within a message that ends at `end`; returns its end."""
        if wire is not Wire.BYTES:
            raise no_model("the file is no ONNX model: a field has the wrong encoding")
        size = self.varint()
        inner = self.at + size
        if inner > self.end:
            raise self.ended()
        if inner > end:
            raise no_model("a field of the file is longer than the message it is in")
        return inner

    def number(self, wire: Wire) -> int:
        """Read an integer, signed in 64 bits."""
        if wire is not Wire.VARINT:
            raise no_model("the file is no ONNX model: a field has the wrong encoding")
        value = self.varint()
        return value - (1 << 64) if value >> 63 else value

    def text(self, wire: Wire, end: int) -> str:
        """Read a text; one too long to keep is refused."""
        inner = self.message(wire, end)
        size = inner - self.at
        if size > TEXT_BYTES_LIMIT:
            raise no_model(f"a name has {size} bytes; the limit is {TEXT_BYTES_LIMIT}")
        self._texts_left -= size
        if self._texts_left < 0:
            raise no_model(f"the names in the file have more than {TEXTS_BYTES_LIMIT} bytes")
        return str(self._take(size), "utf-8", "replace")

    def pass_over(self, wire: Wire, end: int) -> int:
        """Step over a value; returns how many bytes it has."""
        match wire:
            case Wire.VARINT:
                self.varint()
                return 0
            case Wire.FIXED64:
                return self._skip_to(self.at + 8)
            case Wire.FIXED32:
                return self._skip_to(self.at + 4)
            case Wire.BYTES:
                return self._skip_to(self.message(wire, end))

    def varint(self) -> int:
        """Read an unsigned integer of at most 64 bits."""
        value = shift = 0
        for _ in range(_VARINT_BYTES):
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF
            shift += 7
        raise no_model("the file is no ONNX model: a number is longer than 64 bits")

    def ended(self) -> HeaderFault:
        """The fault of a file that ends too early."""
        return EndsInHeader(
            Reason.TRUNCATED, f"the file ends after {self.end} bytes, within a part of the model"
        )

    def _byte(self) -> int:
        offset = self.at - self._block_at
        if offset >= len(self._block):
            self._load()
            offset = 0
        self.at += 1
        return self._block[offset]

    def _take(self, size: int) -> bytes:
        """`size` bytes, which the file is known to have."""
        parts = b""
        while size:
            offset = self.at - self._block_at
            if offset >= len(self._block):
                self._load()
                offset = 0
            part = self._block[offset : offset + size]
            self.at += len(part)
            size -= len(part)
            parts += part
        return parts

    def _load(self) -> None:
        """Read the block that begins at this position, where the last one ends."""
        if self.at >= self.end:
            raise self.ended()
        self._block = self._reader.take(min(BLOCK_BYTES, self.end - self.at))
        self._block_at = self.at

    def _skip_to(self, target: int) -> int:
        if target > self.end:
            raise self.ended()
        size = target - self.at
        block_end = self._block_at + len(self._block)
        beyond = target - max(block_end, self.at)
        while 0 < beyond <= BLOCK_BYTES and block_end < target:
            # Near enough to be read through.
            self.at = block_end
            self._load()
            block_end = self._block_at + len(self._block)
            beyond = target - block_end
        if beyond > 0:
            self._reader.skip(beyond)
            self._block, self._block_at = b"", target
        self.at = target
        return size
