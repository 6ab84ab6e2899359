"""Images that a provider gives: one sound PNG of the asked size and seed, or a refusal with a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pumas_server.contract.errors import Code, ContractError
from pumas_server.contract.options import ImageOptions
from pumas_server.contract.results import ImageResult
from pumas_server.provider.imaging import project_image
from support.senses import jpeg, png, text_of

PNG = text_of(png())


def options(seed: int | None = 7) -> ImageOptions:
    return ImageOptions(kind="image_generation", width=16, height=12, seed=seed)


def answer(*images: Any, **members: Any) -> bytes:
    return json.dumps({"created": 1, "data": list(images), **members}).encode()


def drawn(text: Any = PNG, **members: Any) -> bytes:
    return answer({"b64_json": text, "revised_prompt": "private"}, **members)


def test_case_60_the_image_and_its_seed() -> None:
    assert project_image(drawn(seed=7), options()) == ImageResult(PNG, 7)
    # A provider that does not say drew with the seed that it was told.
    assert project_image(drawn(), options()) == ImageResult(PNG, 7)
    assert project_image(drawn(seed=0), options(None)) == ImageResult(PNG, 0)
    assert project_image(drawn(seed=2**32 - 1), options(None)).seed == 2**32 - 1


broken = bytearray(png())
broken[40] ^= 1

#: An answer, and the words that say what is wrong with it.
INCOHERENT = [
    (answer(), "exactly one image"),
    (answer({"b64_json": PNG}, {"b64_json": PNG}), "exactly one image"),
    (answer(None), "exactly one image"),
    (answer("x"), "exactly one image"),
    (b'{"created": 1}', "exactly one image"),
    (b'{"data": {"b64_json": ""}}', "exactly one image"),
    (drawn(None), "gave no image"),
    (drawn(7), "gave no image"),
    (answer({"url": "http://far.example/i.png"}), "gave no image"),
    (drawn(None, problem="the image holds NaN"), "gave no image: the image holds NaN"),
    (drawn(seed=8), "another seed"),
    (drawn(seed=None), "does not tell the seed"),
    (drawn(seed="7"), "does not tell the seed"),
    (drawn(seed=7.0), "does not tell the seed"),
    (drawn(seed=True), "does not tell the seed"),
    (drawn(seed=-1), "does not tell the seed"),
    (drawn(seed=2**32), "does not tell the seed"),
    (drawn(text_of(png(16, 13))), "an image of 16x13 instead of 16x12"),
    (drawn(text_of(png(12, 16))), "an image of 12x16 instead of 16x12"),
    (drawn(""), "not valid"),
    (drawn("%"), "not valid"),
    (drawn("data:image/png;base64," + PNG), "not valid"),
    (drawn(text_of(jpeg())), "not valid"),
    (drawn(text_of(png()[:-1])), "not valid"),
    (drawn(text_of(png() + b"x")), "not valid"),
    (drawn(text_of(bytes(broken))), "not valid"),
    (drawn(text_of(png(4097, 1))), "not valid"),
]


@pytest.mark.parametrize(("raw", "words"), INCOHERENT)
def test_what_is_no_such_image(raw: bytes, words: str) -> None:
    with pytest.raises(ContractError) as caught:
        project_image(raw, options())
    assert caught.value.code is Code.INVALID_PROVIDER_RESULT
    assert words in caught.value.message
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 1000


def test_without_a_seed_of_either_there_is_none_to_tell() -> None:
    with pytest.raises(ContractError, match="does not tell the seed"):
        project_image(drawn(), options(None))


def test_a_providers_reason_shows_no_address() -> None:
    with pytest.raises(ContractError) as caught:
        project_image(drawn(None, problem="see /srv/secret/m.onnx at 10.0.0.9"), options())
    assert "secret" not in caught.value.message and "10.0.0.9" not in caught.value.message


@pytest.mark.parametrize("raw", [b"", b"no", b"[]", b'{"data":[{"b64_json":NaN}]}', b"\xff"])
def test_what_is_no_answer_at_all(raw: bytes) -> None:
    with pytest.raises(ContractError) as caught:
        project_image(raw, options())
    assert caught.value.code is Code.INVALID_PROVIDER_RESULT


def test_an_error_beside_an_image_is_a_failure() -> None:
    with pytest.raises(ContractError) as caught:
        project_image(drawn(error={"message": "out of memory"}), options())
    assert caught.value.code is Code.PROVIDER_FAILURE
