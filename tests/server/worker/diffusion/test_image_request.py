"""The body of a request for an image."""

from __future__ import annotations

import pytest

from pumas_server.worker.diffusion.image_request import ImageRequest, read_image_request
from pumas_server.worker.diffusion.image_size import Size, build_sizes
from pumas_server.worker.onnx.served import Unfit

SIZES = build_sizes(Size(32, 32), 4)
BODY: dict[str, object] = {"model": "m", "prompt": "a cat", "size": "16x12", "seed": 7}


def test_a_request_is_read() -> None:
    assert read_image_request(BODY, SIZES) == ImageRequest("a cat", Size(16, 12), 7)
    full = BODY | {"n": 1, "response_format": "b64_json", "user": "me"}
    assert read_image_request(full, SIZES) == ImageRequest("a cat", Size(16, 12), 7)


def test_what_is_absent_or_null_is_free() -> None:
    nulls = dict.fromkeys(("n", "response_format", "size", "seed", "style"))
    for body in ({"prompt": "a cat"}, nulls | {"prompt": "a cat"}):
        assert read_image_request(body, SIZES) == ImageRequest("a cat", SIZES.native, None)


@pytest.mark.parametrize(
    "prompt", ["x", "x" * 4000, "\U0001f408" * 4000, " x ", "\u00e9\n\t", "<|endoftext|>"]
)
def test_prompts_of_up_to_4000_code_points_are_taken(prompt: str) -> None:
    assert read_image_request(BODY | {"prompt": prompt}, SIZES).prompt == prompt


@pytest.mark.parametrize("seed", [0, 1, (1 << 32) - 1])
def test_seeds_are_of_32_bits(seed: int) -> None:
    assert read_image_request(BODY | {"seed": seed}, SIZES).seed == seed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt": None}, "prompt must be a string"),
        ({"prompt": ["a cat"]}, "prompt must be a string"),
        ({"prompt": ""}, "prompt has 0 characters; 1 to 4000 are allowed"),
        ({"prompt": "x" * 4001}, "prompt has 4001 characters; 1 to 4000 are allowed"),
        ({"prompt": " \t\n\u3000"}, "prompt is blank"),
        ({"prompt": "a\ud800"}, "prompt is not valid Unicode text"),
        ({"size": 16}, "size must be a string"),
        ({"size": "auto"}, "size must be WIDTHxHEIGHT in pixels, such as 512x512"),
        ({"size": "0x12"}, "size must be WIDTHxHEIGHT in pixels, such as 512x512"),
        ({"size": "68x12"}, "width is 68; this model allows 4 to 64"),
        ({"size": "16x14"}, "height is 14; this model allows multiples of 4"),
        ({"size": "64x64"}, "width x height is 4096 pixels; this model allows 2048"),
        ({"seed": -1}, "seed must be an integer of 0 to 4294967295"),
        ({"seed": 1 << 32}, "seed must be an integer of 0 to 4294967295"),
        ({"seed": 1.0}, "seed must be an integer of 0 to 4294967295"),
        ({"seed": True}, "seed must be an integer of 0 to 4294967295"),
        ({"seed": "7"}, "seed must be an integer of 0 to 4294967295"),
        ({"n": 2}, "n must be 1"),
        ({"n": True}, "n must be 1"),
        ({"n": 1.0}, "n must be 1"),
        ({"response_format": "url"}, "response_format must be b64_json"),
        ({"negative_prompt": "dog"}, "negative_prompt is not supported"),
        ({"quality": "hd"}, "quality is not supported"),
        ({"bad\nname": 1}, "bad\ufffdname is not supported"),
    ],
)
def test_what_cannot_be_done_is_unfit_by_its_field(change: dict[str, object], message: str) -> None:
    with pytest.raises(Unfit) as caught:
        read_image_request(BODY | change, SIZES)
    assert str(caught.value) == message


def test_the_sides_are_called_as_whoever_is_told_wrote_them() -> None:
    for size, message in (
        ("18x16", "a is 18; this model allows multiples of 4"),
        ("16x18", "b is 18; this model allows multiples of 4"),
        ("64x64", "a x b is 4096 pixels; this model allows 2048"),
    ):
        with pytest.raises(Unfit) as caught:
            read_image_request(BODY | {"size": size}, SIZES, ("a", "b"))
        assert str(caught.value) == message
