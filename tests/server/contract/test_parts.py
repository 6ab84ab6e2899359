"""Parts of content by their shape: text, image, clip. What their bytes hold is not looked at."""

from __future__ import annotations

from typing import Any

import pytest

from pumas_server.contract.registry import parse_operation
from support.documents import (
    Document,
    audio_part,
    clip,
    image,
    image_part,
    of_no_kind,
    raw,
    refused,
    text_part,
    told,
    with_content,
    with_input,
)

HERE = "input.messages[0].content[0]"


def words(part: Any) -> str:
    """What is told of a message that holds this part, with the place cut off."""
    sentence = told(with_content([part]))
    return sentence.replace(f"`{HERE}.", "`.").replace(f"`{HERE}`", "it")


@pytest.mark.parametrize(
    "part",
    [
        "hi", 5, None, [], ["text"], {}, {"text": "a"}, {"kind": "video"}, {"kind": 5},
        {"kind": None}, {"kind": ["text"]}, {"kind": "TEXT", "text": "a"},
        # The types of OpenAI's parts are not ours.
        {"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:,"}},
        {"kind": "image_url", "image_url": {"url": "data:,"}},
        {"kind": "input_audio", "input_audio": {"data": "", "format": "wav"}},
    ],
)  # fmt: skip
def test_a_part_needs_a_known_kind(part: Any) -> None:
    body = with_content([part])
    assert told(body) == of_no_kind(HERE, "kind", "audio, image, text", part)


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        (text_part(""), "`.text` is blank"),
        (text_part("\u2028 \t"), "`.text` is blank"),
        ({"kind": "text", "text": None}, "`.text` needs to be a string"),
        ({"kind": "text", "text": ["a"]}, "`.text` needs to be a string"),
        (image_part(encoding="webp"), "`.encoding` needs to be one of: png, jpeg"),
        (image_part(encoding="image/png"), "`.encoding` needs to be one of: png, jpeg"),
        (image_part(encoding="PNG"), "`.encoding` needs to be one of: png, jpeg"),
        (image_part(encoding=None), "`.encoding` needs to be one of: png, jpeg"),
        (image_part(data_base64=""), "`.data_base64` is empty"),
        (image_part(data_base64=None), "`.data_base64` needs to be a string"),
        (image_part(data_base64=[1]), "`.data_base64` needs to be a string"),
        (audio_part(encoding="wav"), "`.encoding` needs to be one of: pcm_s16le, pcm_f32le"),
        (audio_part(encoding="pcm_s16be"), "`.encoding` needs to be one of: pcm_s16le, pcm_f32le"),
        (audio_part(data_base64=""), "`.data_base64` is empty"),
        (audio_part(data_base64=7), "`.data_base64` needs to be a string"),
    ],
)
def test_a_value_that_no_part_has(part: Document, sentence: str) -> None:
    assert words(part) == sentence


# An image is bytes in the request, never a place to fetch them from.
@pytest.mark.parametrize("name", ["url", "path", "media_type", "image_url", "detail"])
def test_an_image_has_no_other_source(name: str) -> None:
    assert words(image_part(**{name: "x"})) == f"unknown field `{name}` in it"


@pytest.mark.parametrize(
    ("part", "sentence"),
    [
        (audio_part(sample_rate_hz=7_999), "`.sample_rate_hz` needs to be at least 8000"),
        (audio_part(sample_rate_hz=192_001), "`.sample_rate_hz` needs to be at most 192000"),
        (audio_part(sample_rate_hz=16_000.0), "`.sample_rate_hz` needs to be an integer"),
        (audio_part(sample_rate_hz="16000"), "`.sample_rate_hz` needs to be an integer"),
        (audio_part(channels=0), "`.channels` needs to be at least 1"),
        (audio_part(channels=3), "`.channels` needs to be at most 2"),
        (audio_part(channels=True), "`.channels` needs to be an integer"),
        (audio_part(sample_count=0), "`.sample_count` needs to be at least 1"),
        (audio_part(sample_count=-1), "`.sample_count` needs to be at least 1"),
        (audio_part(sample_count=2**32), "`.sample_count` needs to be at most 4294967295"),
        (audio_part(sample_count=1.5), "`.sample_count` needs to be an integer"),
        (
            audio_part(sample_count=480_001),
            "it holds 480001 samples at 16000 Hz; at most 30 seconds are allowed",
        ),
        (
            audio_part(sample_rate_hz=8_000, sample_count=240_001),
            "it holds 240001 samples at 8000 Hz; at most 30 seconds are allowed",
        ),
    ],
)
def test_case_50_the_shape_of_a_clip(part: Document, sentence: str) -> None:
    assert words(part) == sentence
    # The same clip where a decision holds it, and as an input of its own.
    bare = {name: value for name, value in part.items() if name != "kind"}
    alone = told(with_input("decision", audio=[clip(), bare]))
    assert alone.replace("`input.audio[1].", "`.").replace("`input.audio[1]`", "it") == sentence
    whole = told(with_input("audio", **bare))
    assert whole.replace("`input.", "`.").replace("`input`", "it") == sentence


@pytest.mark.parametrize("role", ["system", "assistant"])
@pytest.mark.parametrize(("case", "part"), [(46, image_part()), (50, audio_part())])
def test_cases_46_and_50_media_are_for_users(case: int, part: Document, role: str) -> None:
    told = f"`input.messages[0]` has media in a {role} message; only user messages may have it"
    assert refused(with_content([text_part(), part], role=role)) == told


@pytest.mark.parametrize("rate", [8_000, 11_025, 44_100, 192_000])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("encoding", ["pcm_s16le", "pcm_f32le"])
def test_clips_that_can_be(encoding: str, channels: int, rate: int) -> None:
    sound = clip(encoding, rate, channels)
    for count in (1, 30 * rate):
        part = {**sound, "kind": "audio", "sample_count": count}
        parse_operation(raw(with_content([part])))


@pytest.mark.parametrize("encoding", ["png", "jpeg"])
def test_images_that_can_be(encoding: str) -> None:
    parse_operation(raw(with_content([image_part(encoding=encoding)])))
    parse_operation(raw(with_input("image", encoding=encoding)))
    parse_operation(raw(with_input("decision", images=[image(encoding=encoding)])))
