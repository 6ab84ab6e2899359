"""Reads the header of a GGUF file: its metadata and its tensor table, nothing of the weights.

The bytes are a stranger's. Every count and length is checked against a limit and against the bytes
that are left *before* anything is read or kept, all arithmetic is on Python's unbounded integers,
and scalars and short strings alone are kept: of arrays (a vocabulary has hundreds of thousands of
strings) and long texts only the length. So a hostile header costs bounded time and memory, and
ends in a `HeaderFault`, never in another exception. The rules are those of the engine's own reader,
so that what it would refuse at its start is refused here, with a reason.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from math import prod

from pumas_crds.vocabulary import Reason
from pumas_server.worker.ggml_types import TENSOR_TYPES
from pumas_server.worker.gguf_cursor import Cursor, LongText
from pumas_server.worker.header_fault import HeaderFault, no_model
from pumas_server.worker.legible import legible

MAGIC = b"GGUF"
VERSIONS = (2, 3)
ALIGNMENT_KEY = "general.alignment"
DEFAULT_ALIGNMENT = 32

# The first three are the engine's limits; the others are far above any known model's numbers.
ARRAY_LIMIT = 1 << 30
DIMENSIONS_LIMIT = 4
TENSOR_NAME_BYTES_LIMIT = 63
KEY_BYTES_LIMIT = 1024
METADATA_LIMIT = 16_384
TENSORS_LIMIT = 65_536
INTEGER_LIMIT = (1 << 63) - 1

_STRING = 8
_ARRAY = 9
_SCALARS: dict[int, struct.Struct] = {
    type_id: struct.Struct("<" + code)
    for type_id, code in {
        0: "B",
        1: "b",
        2: "H",
        3: "h",
        4: "I",
        5: "i",
        6: "f",
        7: "?",
        10: "Q",
        11: "q",
        12: "d",
    }.items()
}


@dataclass(frozen=True, slots=True)
class Array:
    """An array, of which the length alone is kept."""

    length: int


Value = str | int | float | bool | Array | LongText


@dataclass(frozen=True, slots=True)
class Tensor:
    """One row of the tensor table."""

    name: str
    shape: tuple[int, ...]
    """The length of a row first, as the file has it."""
    type_id: int
    """Key of `TENSOR_TYPES`, or a type that this release does not know."""
    offset: int
    """From the beginning of the tensor data."""
    elements: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a header says."""

    version: int
    metadata: dict[str, Value]
    tensors: tuple[Tensor, ...]
    data_offset: int
    """Where the tensor data begins in the file."""
    data_end: int
    """Where the last tensor of a known type ends in the file."""


def read_header(data: bytes | memoryview | mmap.mmap, size: int) -> GgufHeader:
    """Read the header of a file of `size` bytes that `data` is the beginning of, or all of.

    Raises `HeaderFault`: `NOT_A_MODEL` for what is no GGUF file or breaks its rules, `TRUNCATED`
    when the file ends before what its header promises.
    """
    with memoryview(data) as view:
        cursor = Cursor(view)
        version = _read_version(cursor)
        tensor_count = cursor.count("tensors", TENSORS_LIMIT)
        metadata_count = cursor.count("metadata entries", METADATA_LIMIT)
        metadata = _read_metadata(cursor, metadata_count)
        alignment = _select_alignment(metadata)
        tensors = _read_tensors(cursor, tensor_count)
        data_offset = _padded(cursor.at, alignment)
    data_end = _check_layout(tensors, data_offset, alignment, size)
    return GgufHeader(version, metadata, tensors, data_offset, data_end)


def _padded(offset: int, alignment: int) -> int:
    return offset + -offset % alignment


def _read_version(cursor: Cursor) -> int:
    begin = cursor.view[: len(MAGIC)].tobytes()
    if begin != MAGIC[: len(begin)]:
        raise no_model("the file does not begin as a GGUF file does")
    cursor.take(len(MAGIC))
    version = cursor.u32()
    # A small number with its bytes reversed has zeros where its value should be.
    if version and not version & 0xFFFF:
        raise no_model("the file is big-endian, which no engine here reads")
    if version not in VERSIONS:
        raise no_model(f"the file has GGUF version {version}; versions 2 and 3 are supported")
    return version


def _read_metadata(cursor: Cursor, count: int) -> dict[str, Value]:
    metadata: dict[str, Value] = {}
    for _ in range(count):
        key = cursor.name("metadata entry", KEY_BYTES_LIMIT)
        if not key:
            raise no_model("a metadata entry has no name")
        if key in metadata:
            raise no_model(f"the metadata entry {legible(key, 80)} occurs twice")
        metadata[key] = _read_value(cursor, key)
    return metadata


def _read_value(cursor: Cursor, key: str) -> Value:
    type_id = cursor.u32()
    if type_id == _STRING:
        return cursor.text()
    if type_id == _ARRAY:
        return _read_array(cursor, key)
    scalar = _SCALARS.get(type_id)
    if scalar is None:
        raise no_model(f"the metadata entry {legible(key, 80)} has the unknown type {type_id}")
    value: int | float | bool = scalar.unpack_from(cursor.view, cursor.take(scalar.size))[0]
    return value


def _read_array(cursor: Cursor, key: str) -> Array:
    type_id = cursor.u32()
    length = cursor.count(f"elements in {legible(key, 80)}", ARRAY_LIMIT)
    if type_id == _STRING:
        cursor.skip_strings(length)
    elif (scalar := _SCALARS.get(type_id)) is not None:
        cursor.take(scalar.size * length)
    else:
        # Arrays of arrays too: no engine reads them, so there is no nesting to bound.
        raise no_model(f"{legible(key, 80)} is an array of the unknown type {type_id}")
    return Array(length)


def _select_alignment(metadata: dict[str, Value]) -> int:
    alignment = metadata.get(ALIGNMENT_KEY, DEFAULT_ALIGNMENT)
    if type(alignment) is not int or alignment <= 0 or alignment & (alignment - 1):
        raise no_model(f"{ALIGNMENT_KEY} is not a power of two")
    return alignment


def _read_tensors(cursor: Cursor, count: int) -> tuple[Tensor, ...]:
    tensors: dict[str, Tensor] = {}
    weights = 0
    for _ in range(count):
        tensor = _read_tensor(cursor)
        if tensor.name in tensors:
            raise no_model(f"the tensor {tensor.name} occurs twice")
        tensors[tensor.name] = tensor
        weights += tensor.elements
    if weights > INTEGER_LIMIT:
        raise no_model(f"its tensors claim {weights} weights, more than can be counted")
    return tuple(tensors.values())


def _read_tensor(cursor: Cursor) -> Tensor:
    name = cursor.name("tensor", TENSOR_NAME_BYTES_LIMIT)
    dimensions = cursor.u32()
    if dimensions > DIMENSIONS_LIMIT:
        raise no_model(f"the tensor {name} has {dimensions} dimensions; the limit is 4")
    shape = tuple(cursor.u64() for _ in range(dimensions))
    # Sizes whose product wraps to something small are how crafted files get past 64-bit checks.
    if 0 in shape or (elements := prod(shape)) > INTEGER_LIMIT:
        raise no_model(f"the tensor {name} has the impossible shape {shape}")
    type_id = cursor.u32()
    offset = cursor.u64()
    return Tensor(name, shape, type_id, offset, elements)


def _check_layout(tensors: tuple[Tensor, ...], data_offset: int, alignment: int, size: int) -> int:
    """Check that tensors lie one after the other and within the file; returns where they end."""
    end = 0
    sized = True
    for tensor in tensors:
        expected = _padded(end, alignment)
        misplaced = tensor.offset != expected if sized else tensor.offset < expected
        if misplaced or tensor.offset % alignment:
            raise no_model(
                f"the tensor {tensor.name} lies at offset {tensor.offset}, not at {expected}"
            )
        size_known = _stored_bytes(tensor)
        sized = size_known is not None
        end = tensor.offset + (size_known or 0)
    if tensors and data_offset + end > size:
        raise HeaderFault(
            Reason.TRUNCATED,
            f"the file has {size} bytes, but its tensors need {data_offset + end}",
        )
    return data_offset + end


def _stored_bytes(tensor: Tensor) -> int | None:
    """Bytes that a tensor takes; None when its type is not known here."""
    known = TENSOR_TYPES.get(tensor.type_id)
    if known is None:
        return None
    row = tensor.shape[0] if tensor.shape else 1
    if row % known.block:
        raise no_model(
            f"the tensor {tensor.name} has rows of {row} weights,"
            f" which {known.name} cannot store in blocks of {known.block}"
        )
    return tensor.elements // known.block * known.block_bytes
