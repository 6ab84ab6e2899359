"""Base64 in its one canonical spelling (notes §2.6, 2).

Standard alphabet, padded to groups of four, pad bits zero, nothing else: so text and bytes stand
for each other, and text that was checked here can be forwarded as it is. The decoder of the
standard library holds the interpreter's lock while it works, and knows nothing of pad bits. So it
is given slices, and the pad bits are looked at in the last group; re-encoding everything to
compare would cost half as much again.
"""

from __future__ import annotations

import re
from binascii import a2b_base64

from pumas_server.media.rules import Fault, Rule
from pumas_server.media.stopping import SLICE, Checkpoint

_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_FOREIGN = re.compile(r"[^A-Za-z0-9+/]")

#: Bits of the last digit that belong to no byte, by the number of padding characters.
_PAD_BITS = {0: 0, 1: 0b11, 2: 0b1111}


def decoded_size(text: str) -> int:
    """Bytes that `text` stands for, from its length and its end alone.

    Raises `Fault` for what is no base64 by its length, or is a data URL. The characters in
    between are not looked at: `decode` does.
    """
    if text[:5].lower() == "data:":
        raise Fault(Rule.BASE64_NO_URL, "is a data: URL; send the base64 alone")
    if len(text) % 4:
        raise Fault(
            Rule.BASE64_LENGTH,
            f"is not canonical base64: {len(text)} characters are no multiple of 4",
        )
    return len(text) // 4 * 3 - _padding(text)


def decode(text: str, checkpoint: Checkpoint) -> bytearray:
    """The bytes that `text` stands for, `decoded_size(text)` of them.

    Raises `Fault` for what is not canonical, and whatever `checkpoint` raises.
    """
    data = bytearray(decoded_size(text))
    at = 0
    for begin in range(0, len(text), SLICE):
        checkpoint()
        piece = text[begin : begin + SLICE]
        digits = piece[: -_padding(piece) or None] if begin + SLICE >= len(text) else piece
        if "=" in digits:
            raise Fault(
                Rule.BASE64_PADDING, "is not canonical base64: padding stands before its end"
            )
        try:
            decoded = a2b_base64(piece, strict_mode=True)
        except ValueError:
            raise _foreign(digits, begin) from None
        data[at : at + len(decoded)] = decoded
        at += len(decoded)
    padding = _padding(text)
    if padding and _ALPHABET.index(text[-1 - padding]) & _PAD_BITS[padding]:
        raise Fault(Rule.BASE64_PAD_BITS, "is not canonical base64: its pad bits are not zero")
    return data


def _padding(text: str) -> int:
    return 2 if text.endswith("==") else int(text.endswith("="))


def _foreign(digits: str, begin: int) -> Fault:
    found = _FOREIGN.search(digits)
    where = f"character {begin + found.start() + 1}" if found else "a character"
    return Fault(
        Rule.BASE64_ALPHABET, f"is not canonical base64: {where} is not of the standard alphabet"
    )
