"""A tokenizer neither cuts nor pads, whatever its file says, and counts what is too long."""

from __future__ import annotations

import pytest

from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.onnx.served import Unfit
from pumas_server.worker.onnx.text_tokens import TextTokens, Tokens
from support.tiny_onnx import WORDS, build_tokenizer

DATA = build_tokenizer().to_str().encode()
CLS, SEP, RED, BLUE = map(WORDS.index, ("[CLS]", "[SEP]", "red", "blue"))


def test_nothing_is_cut_and_nothing_padded() -> None:
    tokens = TextTokens(DATA, 0, 9)
    assert tokens.encode(["", "red", "Red blue red"], "input") == [
        Tokens([CLS, SEP], [0, 0]),
        Tokens([CLS, RED, SEP], [0] * 3),
        Tokens([CLS, RED, BLUE, RED, SEP], [0] * 5),
    ]
    assert tokens.encode_pairs("red", ["", "blue"], "documents") == [
        Tokens([CLS, RED, SEP, SEP], [0, 0, 0, 1]),
        Tokens([CLS, RED, SEP, BLUE, SEP], [0, 0, 0, 1, 1]),
    ]


def test_what_is_too_long_is_counted() -> None:
    tokens = TextTokens(DATA, 5, 0)
    assert len(tokens.encode(["red red red"], "input")[0].ids) == 5
    with pytest.raises(Unfit, match=r"^input\[1\] has input_tokens 6; the limit is 5$"):
        tokens.encode(["red", "red red red red"], "input")
    with pytest.raises(Unfit, match=r"^documents\[0\] has input_tokens 6; the limit is 5$"):
        tokens.encode_pairs("red red", ["blue"], "documents")


def test_the_filling_token() -> None:
    assert TextTokens(DATA, 0, 9).padding == 0
    silent = build_tokenizer()
    silent.no_padding()
    assert TextTokens(silent.to_str().encode(), 0, 9).padding == 9


def test_a_text_without_tokens_is_refused() -> None:
    bare = build_tokenizer()
    bare.post_processor = None
    tokens = TextTokens(bare.to_str().encode(), 0, 0)
    with pytest.raises(Unfit, match=r"^input\[1\] has no tokens$"):
        tokens.encode(["red", " "], "input")


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", DATA[:-1], b'{"model": 7}'])
def test_what_is_no_tokenizer(data: bytes) -> None:
    with pytest.raises(HeaderFault, match=r"^the model's tokenizer\.json is no tokenizer$"):
        TextTokens(data, 0, 0)
