"""Every rule that media are refused by, and the refusal that names its rule (notes §2.6, §2.7).

A `Fault` is made where the fact is known, by code that knows neither the request nor the place of
the file in it; `request_media` adds the place and makes a `ContractError` of it. The rule is for
tests and for the status: there is a bad file for each of them.
"""

from __future__ import annotations

from enum import StrEnum

from pumas_server.contract.errors import Code, ContractError, invalid
from pumas_server.contract.strict_json import quoted


class Rule(StrEnum):
    """What a request's media keep to. Those of `LIMITS` are size bounds: 413, the others 400."""

    IMAGE_COUNT = "image_count"
    MESSAGE_COUNT = "message_count"
    CONTENT_PARTS = "content_parts"
    IMAGE_CHARACTERS = "image_bytes, before decoding"
    IMAGE_BYTES = "image_bytes"
    TOTAL_IMAGE_BYTES = "total_image_bytes"
    WIDTH = "width"
    HEIGHT = "height"
    IMAGE_PIXELS = "image_pixels"
    DECODE_BYTES = "decode_bytes"
    AUDIO_COUNT = "audio_count"
    TOTAL_AUDIO_BYTES = "total_audio_bytes"

    BASE64_NO_URL = "base64: no data URL"
    BASE64_LENGTH = "base64: groups of four"
    BASE64_ALPHABET = "base64: standard alphabet"
    BASE64_PADDING = "base64: padding at the end only"
    BASE64_PAD_BITS = "base64: pad bits are zero"

    DECLARED_ENCODING = "an image is of the declared encoding"
    AN_IMAGE = "an image begins as one"
    NOT_EMPTY = "an image has pixels"
    PIXELS_DECODE = "pixels decode without a warning"

    PNG_CUT = "png: whole"
    PNG_CHUNK_TYPE = "png: chunk types are letters"
    PNG_CHUNK_COUNT = "png: bounded number of chunks"
    PNG_CRC = "png: checksums"
    PNG_HEADER_FIRST = "png: IHDR first"
    PNG_HEADER_ONCE = "png: IHDR once"
    PNG_HEADER_SIZE = "png: IHDR of 13 bytes"
    PNG_COLOUR = "png: legal colour type and bit depth"
    PNG_METHODS = "png: known methods"
    PNG_INTERLACE = "png: known interlace method"
    PNG_PALETTE_ONCE = "png: PLTE once"
    PNG_PALETTE_BEFORE_DATA = "png: PLTE before IDAT"
    PNG_PALETTE_SIZE = "png: PLTE of a legal size"
    PNG_PALETTE_NEEDED = "png: PLTE where colours are indexed"
    PNG_PALETTE_UNWANTED = "png: no PLTE in greyscale"
    PNG_PALETTE_INDEX = "png: indices within PLTE"
    PNG_TRANSPARENCY = "png: tRNS fits the colour type"
    PNG_DATA_PRESENT = "png: IDAT present"
    PNG_DATA_TOGETHER = "png: IDAT chunks together"
    PNG_END_EMPTY = "png: IEND empty"
    PNG_END_LAST = "png: nothing behind IEND"
    PNG_STILL = "png: no animation"
    PNG_CRITICAL = "png: known critical chunks"
    PNG_INFLATES = "png: IDAT inflates"
    PNG_STREAM_WHOLE = "png: the zlib stream is whole"
    PNG_STREAM_LAST = "png: nothing behind the zlib stream"
    PNG_PIXELS_ENOUGH = "png: as many bytes as the header implies, not fewer"
    PNG_PIXELS_NO_MORE = "png: as many bytes as the header implies, not more"
    PNG_FILTER = "png: known row filters"

    JPEG_CUT = "jpeg: whole segments"
    JPEG_END = "jpeg: EOI"
    JPEG_END_LAST = "jpeg: nothing behind EOI"
    JPEG_MARKER = "jpeg: a marker where one is due"
    JPEG_MARKER_KNOWN = "jpeg: known markers"
    JPEG_SEGMENT = "jpeg: segments of a legal size"
    JPEG_SEGMENT_COUNT = "jpeg: bounded number of segments"
    JPEG_RESTART = "jpeg: restarts only where announced"
    JPEG_FRAME_PRESENT = "jpeg: a frame header"
    JPEG_FRAME_ONCE = "jpeg: one frame header"
    JPEG_LOSSLESS = "jpeg: not lossless"
    JPEG_ARITHMETIC = "jpeg: not arithmetic"
    JPEG_HIERARCHICAL = "jpeg: not hierarchical"
    JPEG_PRECISION = "jpeg: 8 bits"
    JPEG_COMPONENTS = "jpeg: 1, 3 or 4 components, sampled 1 to 4 times"
    JPEG_LINES = "jpeg: no DNL"
    JPEG_SCAN_PRESENT = "jpeg: a scan"
    JPEG_SCAN_AFTER_FRAME = "jpeg: scans behind the frame header"
    JPEG_SCAN_COMPONENTS = "jpeg: scans of the frame's components"
    JPEG_SCAN_COMPLETE = "jpeg: every component in a scan"
    JPEG_HUFFMAN = "jpeg: codes of its own"
    JPEG_SCAN_COUNT = "jpeg: bounded number of scans"
    JPEG_SINGLE = "jpeg: one picture"

    CLIP_BYTES = "a clip has the bytes that its numbers say"
    CLIP_FINITE = "float samples are finite"
    CLIP_RANGE = "float samples are within -1 and 1"

    @property
    def is_limit(self) -> bool:
        """Whether the request is too large (413), not malformed (400)."""
        return self in LIMITS


LIMITS = frozenset(
    {
        Rule.IMAGE_COUNT,
        Rule.MESSAGE_COUNT,
        Rule.CONTENT_PARTS,
        Rule.IMAGE_CHARACTERS,
        Rule.IMAGE_BYTES,
        Rule.TOTAL_IMAGE_BYTES,
        Rule.WIDTH,
        Rule.HEIGHT,
        Rule.IMAGE_PIXELS,
        Rule.DECODE_BYTES,
        Rule.AUDIO_COUNT,
        Rule.TOTAL_AUDIO_BYTES,
    }
)


class Fault(Exception):
    """A rule that is broken; `words` go on with a sentence that begins with the place."""

    def __init__(self, rule: Rule, words: str) -> None:
        super().__init__(f"{rule.name}: {words}")
        self.rule = rule
        self.words = words

    def at(self, place: str) -> ContractError:
        """The refusal of the request whose field `place` (a path) breaks the rule."""
        sentence = f"{quoted(place)} {self.words}"
        if self.rule.is_limit:
            return ContractError(Code.REQUEST_LIMIT, sentence)
        return invalid(sentence)


def check_bound(rule: Rule, maximum: int, value: int) -> None:
    """Raise the `Fault` of a limit when `value` is over `maximum`; names the option's bound."""
    if value > maximum:
        raise Fault(rule, f"is over {quoted(rule)}: at most {maximum} are allowed, it has {value}")
