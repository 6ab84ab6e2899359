"""The WAV header that makes a file of a clip, for engines that read files only.

The file is `header + PCM`, little-endian, all sizes those of the clip:

    offset  16 bit                           offset  float
         0  "RIFF" size "WAVE"                    0  "RIFF" size "WAVE"
        12  "fmt " 16, tag 1, channels, rate,    12  "fmt " 18, tag 3, channels, rate, bytes a
            bytes a second, bytes a frame,           second, bytes a frame, 32, 0
            16                                   38  "fact" 4, frames
        36  "JUNK" 2, zeros                      50  "JUNK" 6, zeros
        46  "data" size                          64  "data" size
        54  PCM                                  72  PCM

JUNK is the format's own filler, which readers step over. It makes the header a multiple of three
bytes, so its base64 ends without padding: the base64 of the file is that of the header and then
the caller's text as it came, and no sample is encoded again.
"""

from __future__ import annotations

import struct

from pumas_server.contract.parts import Clip
from pumas_server.media.pcm import WIDTHS, clip_bytes

_PCM, _FLOAT = 1, 3


def build_header(clip: Clip) -> bytes:
    """What stands before the samples of `clip` in a WAV file; its length is a multiple of three."""
    data = struct.pack("<4sI", b"data", clip_bytes(clip))
    if clip.encoding == "pcm_f32le":
        # Whatever is not plain PCM has to tell its extension's size (0) and its frames.
        form = _chunk(b"fmt ", _format(clip, _FLOAT) + struct.pack("<H", 0))
        chunks = form + _chunk(b"fact", struct.pack("<I", clip.sample_count)) + _junk(6)
    else:
        chunks = _chunk(b"fmt ", _format(clip, _PCM)) + _junk(2)
    size = len(b"WAVE") + len(chunks) + len(data) + clip_bytes(clip)
    return struct.pack("<4sI4s", b"RIFF", size, b"WAVE") + chunks + data


def _format(clip: Clip, tag: int) -> bytes:
    width = WIDTHS[clip.encoding]
    frame = clip.channels * width
    rate = clip.sample_rate_hz
    return struct.pack("<HHIIHH", tag, clip.channels, rate, rate * frame, frame, width * 8)


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack("<4sI", name, len(content)) + content


def _junk(size: int) -> bytes:
    return _chunk(b"JUNK", bytes(size))
