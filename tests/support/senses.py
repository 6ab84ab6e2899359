"""Small sound images and clips, and the parts of a request that hold them."""

from __future__ import annotations

import io
import struct
import wave
import zlib
from base64 import b64encode
from typing import Any

import numpy as np
from PIL import Image as Picture

from support.documents import Document


def png(width: int = 16, height: int = 12, *, shade: int = 0) -> bytes:
    """A PNG of colours that run from corner to corner; `shade` tells several apart."""
    rows = b"".join(
        b"\0"
        + bytes(channel for x in range(width) for channel in (x * 255 // width, y % 256, shade))
        for y in range(height)
    )
    return _png(width, height, zlib.compress(rows))


def _png(width: int, height: int, stream: bytes) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", stream), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(kind + content))
    return struct.pack(">I", len(content)) + kind + content + checksum


def png_of_size(width: int, height: int) -> bytes:
    """A sound PNG of one colour, quickly made however large it is."""
    return _png(width, height, zlib.compress(bytes(height * (1 + 3 * width)), 1))


def jpeg(width: int = 16, height: int = 12) -> bytes:
    """A JPEG as an encoder writes it."""
    file = io.BytesIO()
    Picture.frombytes("RGB", (width, height), bytes(range(192)) * (width * height // 64)).save(
        file, "JPEG", quality=90
    )
    return file.getvalue()


def pcm(count: int = 1600, channels: int = 1, *, floats: bool = False) -> bytes:
    """Samples of a tone, little-endian."""
    tone = np.repeat(np.sin(np.arange(count) / 7) * 0.5, channels)
    samples = tone.astype("<f4") if floats else np.rint(tone * 32767).astype("<i2")
    return samples.tobytes()


def wav(count: int = 1600, rate: int = 16_000) -> bytes:
    """A WAV file of the tone."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(pcm(count))
    return file.getvalue()


def text_of(raw: bytes) -> str:
    """Canonical base64."""
    return b64encode(raw).decode()


def image(raw: bytes | None = None, encoding: str = "png") -> Document:
    """An image as a decision holds it."""
    if raw is None:
        raw = png() if encoding == "png" else jpeg()
    return {"encoding": encoding, "data_base64": text_of(raw)}


def image_part(raw: bytes | None = None, encoding: str = "png") -> Document:
    """An image in a message."""
    return {"kind": "image", **image(raw, encoding)}


def clip(
    count: int = 1600, rate: int = 16_000, channels: int = 1, *, floats: bool = False
) -> Document:
    """A clip as a decision holds it."""
    return {
        "encoding": "pcm_f32le" if floats else "pcm_s16le",
        "sample_rate_hz": rate,
        "channels": channels,
        "sample_count": count,
        "data_base64": text_of(pcm(count, channels, floats=floats)),
    }


def audio_part(**changes: Any) -> Document:
    """A clip in a message."""
    return {"kind": "audio", **clip(), **changes}


def said(*parts: Any, kind: str = "messages") -> Document:
    """A conversation of one user message with these parts."""
    return {"kind": kind, "messages": [{"role": "user", "content": list(parts)}]}
