"""The types that an ONNX tensor's elements have: their names and sizes, as the format numbers them.

A type that is missing here is newer than this release: its tensors are checked less, not refused.
"""

from __future__ import annotations

from typing import NamedTuple


class ElementType(NamedTuple):
    """One type."""

    name: str
    bits: int
    """Of one element; 0 where that is not fixed: of texts, and where packing is not settled."""


FLOAT = 1
INT32 = 6
INT64 = 7
FLOAT16 = 10

ELEMENT_TYPES: dict[int, ElementType] = {
    FLOAT: ElementType("FLOAT", 32),
    2: ElementType("UINT8", 8),
    3: ElementType("INT8", 8),
    4: ElementType("UINT16", 16),
    5: ElementType("INT16", 16),
    INT32: ElementType("INT32", 32),
    INT64: ElementType("INT64", 64),
    8: ElementType("STRING", 0),
    9: ElementType("BOOL", 8),
    FLOAT16: ElementType("FLOAT16", 16),
    11: ElementType("DOUBLE", 64),
    12: ElementType("UINT32", 32),
    13: ElementType("UINT64", 64),
    14: ElementType("COMPLEX64", 64),
    15: ElementType("COMPLEX128", 128),
    16: ElementType("BFLOAT16", 16),
    17: ElementType("FLOAT8E4M3FN", 8),
    18: ElementType("FLOAT8E4M3FNUZ", 8),
    19: ElementType("FLOAT8E5M2", 8),
    20: ElementType("FLOAT8E5M2FNUZ", 8),
    21: ElementType("UINT4", 4),
    22: ElementType("INT4", 4),
    23: ElementType("FLOAT4E2M1", 4),
    24: ElementType("FLOAT8E8M0", 8),
    25: ElementType("UINT2", 2),
    26: ElementType("INT2", 2),
    27: ElementType("FLOAT6E2M3", 0),
    28: ElementType("FLOAT6E3M2", 0),
}


def type_name(type_id: int) -> str:
    """The type's name, or its number when this release does not know it."""
    known = ELEMENT_TYPES.get(type_id)
    return known.name if known else f"TYPE_{type_id}"


def stored_bytes(type_id: int, elements: int) -> int | None:
    """Bytes that so many elements take; None when that is not known here."""
    known = ELEMENT_TYPES.get(type_id)
    if known is None or not known.bits:
        return None
    return -(-elements * known.bits // 8)
