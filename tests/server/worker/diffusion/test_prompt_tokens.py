"""Prompts as token numbers, against the byte-pair algorithm written out."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumas_server.worker.diffusion.prompt_tokens import (
    TOKENIZER_BYTES,
    PromptTokenizer,
    read_prompt_tokenizer,
)
from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.onnx.files import LocalFiles
from support.tiny_pipeline import (
    BEGIN,
    END,
    SPECIAL_TOKENS,
    TOKENIZER_CONFIG,
    build_merges,
    build_tiny_pipeline,
    build_vocabulary,
)

REFERENCE: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("reference.py")))
VOCABULARY = build_vocabulary()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_pipeline(tmp_path_factory.mktemp("pipeline"))


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> PromptTokenizer:
    return read_prompt_tokenizer(LocalFiles(folder).read, 77)


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "a cat on mars",
        "The CAT's red dog, can't we'll",
        "  cat\t\n cat　dog  ",
        "r2d2 42 9x",
        "Ünïcode 猫 🐈 e\u0301",
        "!!!??? --- a.b,c",
        "a" * 4000,
    ],
)
def test_tokens_are_those_of_the_algorithm(
    prompt: str, tokenizer: PromptTokenizer, folder: Path
) -> None:
    expected = REFERENCE["tokens"](folder, prompt.replace("e\u0301", "é"))
    assert tokenizer.encode(prompt).tolist() == expected.tolist()


def test_words_of_the_vocabulary_are_one_token(tokenizer: PromptTokenizer) -> None:
    row = tokenizer.encode("A cat  on MARS")[0].tolist()
    words = [VOCABULARY[word] for word in ("a</w>", "cat</w>", "on</w>", "mars</w>")]
    begin, end, padding = (VOCABULARY[word] for word in (BEGIN, END, "!"))
    assert row == [begin, *words, end, *[padding] * 71]


@given(st.text(max_size=400))
@settings(deadline=None, max_examples=60)
def test_any_text_has_the_fixed_length_and_numbers_of_the_vocabulary(
    tokenizer: PromptTokenizer, prompt: str
) -> None:
    tokens = tokenizer.encode(prompt)
    assert tokens.shape == (1, 77)
    assert 0 <= tokens.min() <= tokens.max() <= tokenizer.largest < len(VOCABULARY)
    assert tokens[0, 0] == VOCABULARY[BEGIN]
    assert VOCABULARY[END] in tokens[0]


def test_a_long_text_is_cut_and_still_ends(tokenizer: PromptTokenizer) -> None:
    row = tokenizer.encode("cat " * 1000)[0].tolist()
    assert row == [VOCABULARY[BEGIN], *[VOCABULARY["cat</w>"]] * 75, VOCABULARY[END]]


def test_a_whole_tokenizer_file_is_preferred_and_gives_the_same(
    folder: Path, tokenizer: PromptTokenizer, tmp_path: Path
) -> None:
    whole = tmp_path / "tokenizer/tokenizer.json"
    whole.parent.mkdir()
    tokenizer.tokenizer.save(str(whole))
    special = folder / "tokenizer/special_tokens_map.json"
    (tmp_path / "tokenizer/special_tokens_map.json").write_bytes(special.read_bytes())
    read = read_prompt_tokenizer(LocalFiles(tmp_path).read, 77)
    for prompt in ("", "the red cat, don't!"):
        assert read.encode(prompt).tolist() == tokenizer.encode(prompt).tolist()


def rewritten(folder: Path, **files: object) -> Path:
    """The folder with files of `tokenizer/` replaced; None takes one away."""
    for stem, value in files.items():
        path = folder / "tokenizer" / f"{stem}.{'txt' if stem == 'merges' else 'json'}"
        path.parent.mkdir(exist_ok=True)
        match value:
            case None:
                path.unlink()
            case bytes():
                path.write_bytes(value)
            case _:
                path.write_text(json.dumps(value))
    return folder


@pytest.mark.parametrize(
    ("settings", "special", "padding"),
    [
        (TOKENIZER_CONFIG, SPECIAL_TOKENS, "!"),
        (TOKENIZER_CONFIG | {"added_tokens_decoder": {}}, SPECIAL_TOKENS, END),
        (TOKENIZER_CONFIG, {}, END),
        (TOKENIZER_CONFIG | {"pad_token": {"content": "a"}}, {}, "a"),
        ({}, {}, END),
    ],
)
def test_padding_is_the_token_that_the_folder_says(
    settings: dict[str, Any], special: dict[str, Any], padding: str, tmp_path: Path
) -> None:
    folder = rewritten(
        build_tiny_pipeline(tmp_path), tokenizer_config=settings, special_tokens_map=special
    )
    read = read_prompt_tokenizer(LocalFiles(folder).read, 77)
    assert read.encode("cat")[0, -1] == VOCABULARY[padding]


@pytest.mark.parametrize(
    ("stated", "positions", "length"),
    [(77, 77, 77), (20, 77, 20), (200, 77, 77), (10**30, 64, 64), (None, 64, 64), (1, 9, 2)],
)
def test_the_length_is_the_lesser_of_tokenizer_and_encoder(
    stated: int | None, positions: int, length: int, tmp_path: Path
) -> None:
    folder = rewritten(build_tiny_pipeline(tmp_path), tokenizer_config={"model_max_length": stated})
    read = read_prompt_tokenizer(LocalFiles(folder).read, positions)
    assert read.encode("a cat " * 50).shape == (1, length)


MERGES = "\n".join(" ".join(pair) for pair in build_merges()).encode()


def test_a_file_of_merges_without_a_version_is_read_whole(tmp_path: Path) -> None:
    folder = rewritten(build_tiny_pipeline(tmp_path), merges=MERGES)
    read = read_prompt_tokenizer(LocalFiles(folder).read, 77)
    assert read.encode("cat")[0, 1] == VOCABULARY["cat</w>"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"vocab": None}, "the file tokenizer/vocab.json is missing"),
        ({"merges": None}, "the file tokenizer/merges.txt is missing"),
        ({"vocab": b"{"}, "tokenizer/vocab.json is not valid JSON"),
        ({"vocab": {"a": 0, "b": 2}}, "tokenizer/vocab.json does not number its words from 0 on"),
        ({"vocab": {"a": 0, "b": 0}}, "tokenizer/vocab.json does not number its words from 0 on"),
        ({"vocab": {"a": 0, "b": "1"}}, "tokenizer/vocab.json does not number its words from 0 on"),
        ({"vocab": {"a": 0, "b": -1}}, "tokenizer/vocab.json does not number its words from 0 on"),
        ({"vocab": {"a": 0}}, "a special token is missing in tokenizer/vocab.json"),
        ({"merges": b"a b c\n"}, "tokenizer/merges.txt: merge 1 is not of two parts"),
        ({"merges": b"\xff\n"}, "tokenizer/merges.txt is not UTF-8"),
        (
            {"merges": b"c a\nca zzz\n"},
            "tokenizer/merges.txt merges what tokenizer/vocab.json does not have",
        ),
        ({"tokenizer": b"{}"}, "tokenizer/tokenizer.json is not a tokenizer"),
        ({"tokenizer": b"\xff"}, "tokenizer/tokenizer.json is not a tokenizer"),
        (
            {"special_tokens_map": {"pad_token": "<pad>"}},
            "a special token is missing in the tokenizer's vocabulary",
        ),
        (
            {"special_tokens_map": {"pad_token": 5}},
            "tokenizer/special_tokens_map.json: pad_token is not a token",
        ),
        ({"special_tokens_map": []}, "tokenizer/special_tokens_map.json is not a JSON object"),
        (
            {"vocab": b" " * (TOKENIZER_BYTES + 1)},
            f"the model's tokenizer/vocab.json has {TOKENIZER_BYTES + 1} bytes;"
            f" the limit is {TOKENIZER_BYTES}",
        ),
    ],
)
def test_what_is_no_tokenizer_is_refused_by_its_file(
    files: dict[str, object], message: str, tmp_path: Path
) -> None:
    folder = rewritten(build_tiny_pipeline(tmp_path), **files)
    with pytest.raises(HeaderFault) as caught:
        read_prompt_tokenizer(LocalFiles(folder).read, 77)
    assert caught.value.message == message
