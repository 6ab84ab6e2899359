"""Ways to spoil a file: what fuzzers do, and what knows of chunks and segments."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from random import Random

from support.media_files import SIGNATURE, chunk, join, segments

Mutation = Callable[[Random, bytes, Sequence[bytes]], bytes]

LONGEST = 8 << 20

_TELLING = (
    b"\xff",
    b"\0",
    b"\x7f\xff\xff\xff",
    b"\xff\xd9",
    b"\xff\xd8",
    b"\xff\xff\xff\xff",
    b"=",
)


def flip(random: Random, file: bytes, _: Sequence[bytes]) -> bytes:
    """Other bits."""
    changed = bytearray(file)
    for _ in range(random.choice((1, 1, 2, 8))):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def replace(random: Random, file: bytes, _: Sequence[bytes]) -> bytes:
    """Other bytes, telling ones among them."""
    at = random.randrange(len(file))
    new = random.choice((*_TELLING, random.randbytes(random.choice((1, 4)))))
    return file[:at] + new + file[at + len(new) :]


def cut(random: Random, file: bytes, _: Sequence[bytes]) -> bytes:
    """Without a piece, often the end."""
    begin, end = sorted(random.randrange(len(file) + 1) for _ in range(2))
    return file[:begin] if random.random() < 0.5 else file[:begin] + file[end:]


def insert(random: Random, file: bytes, _: Sequence[bytes]) -> bytes:
    """With more bytes."""
    at = random.randrange(len(file) + 1)
    return file[:at] + random.choice((*_TELLING, random.randbytes(5))) + file[at:]


def repeat(random: Random, file: bytes, _: Sequence[bytes]) -> bytes:
    """With a piece many times."""
    begin, end = sorted(random.randrange(len(file) + 1) for _ in range(2))
    return file[:end] + file[begin:end] * random.choice((1, 2, 30)) + file[end:]


def splice(random: Random, file: bytes, others: Sequence[bytes]) -> bytes:
    """With the end of another file."""
    other = random.choice(others)
    return file[: random.randrange(len(file) + 1)] + other[random.randrange(len(other) + 1) :]


def rearrange(random: Random, file: bytes, others: Sequence[bytes]) -> bytes:
    """With whole chunks or segments dropped, doubled, exchanged or spoilt, and sums made right."""
    if file.startswith(SIGNATURE):
        parts, foreign = _chunks(file), _chunks(random.choice(others))
        return SIGNATURE + b"".join(
            chunk(kind, content) for kind, content in _shuffled(random, parts, foreign)
        )
    try:
        pieces = [(b"", each.encode()) for each in segments(file)]
    except IndexError:  # spoilt before
        return file
    return join(content for _, content in _shuffled(random, pieces, pieces))


def _shuffled(
    random: Random, parts: list[tuple[bytes, bytes]], foreign: list[tuple[bytes, bytes]]
) -> list[tuple[bytes, bytes]]:
    parts = list(parts)
    for _ in range(random.choice((1, 1, 2, 3))):
        if not parts:
            return parts
        at = random.randrange(len(parts))
        kind, content = parts[at]
        match random.randrange(5):
            case 0:
                del parts[at]
            case 1:
                parts.insert(random.randrange(len(parts) + 1), parts[at])
            case 2:
                parts[at] = kind, _spoilt(random, kind, content)
            case 3:
                other = random.randrange(len(parts))
                parts[at], parts[other] = parts[other], parts[at]
            case _:
                parts.insert(at, random.choice(foreign or parts))
    return parts


def _spoilt(random: Random, kind: bytes, content: bytes) -> bytes:
    """Other content; of IDAT, what is in the stream, not the stream."""
    if not content:
        return b"\0"
    if kind == b"IDAT":
        try:
            raw = zlib.decompress(content)
        except zlib.error:
            return flip(random, content, ())
        return zlib.compress(_bytewise(random, raw) if raw else b"\0")
    if kind == b"IHDR" and len(content) == 13 and random.random() < 0.5:
        sides = (random.choice((0, 1, 7, 4096, 4097, 2**31)) for _ in range(2))
        return struct.pack(">II", *sides) + content[8:]
    return _bytewise(random, content)


def _bytewise(random: Random, content: bytes) -> bytes:
    return random.choice((flip, replace, cut, insert, repeat))(random, content, ())


def _chunks(file: bytes) -> list[tuple[bytes, bytes]]:
    found: list[tuple[bytes, bytes]] = []
    at = len(SIGNATURE)
    while at + 12 <= len(file):
        length = int.from_bytes(file[at : at + 4])
        found.append((file[at + 4 : at + 8], file[at + 8 : at + 8 + length]))
        at += length + 12
    return found


MUTATIONS: tuple[Mutation, ...] = (flip, replace, cut, insert, repeat, splice, rearrange, rearrange)


def mutate(random: Random, file: bytes, others: Sequence[bytes]) -> bytes:
    """The file after one to three mutations, never longer than a request may hold it."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        file = random.choice(MUTATIONS)(random, file, others)[:LONGEST] or b"\0"
    return file
