"""The media of a whole request: found in place, counted, and handed on as they came."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest

from pumas_server.contract.errors import Code, ContractError
from pumas_server.contract.request import Operation, parse
from pumas_server.media.request_media import check, find_media, gather
from pumas_server.media.stopping import Stopped
from support.bad_media import MIB, PICTURE, TEXT, clips_of, conversation, images_of, one
from support.media_files import clip, image, jpeg, part, png, said, text_of

SOUND = clip(b"abcdef")


def operation(source: dict[str, Any]) -> Operation:
    return parse(
        {"contract_version": 1, "request_id": "r", "model": "m", "input": source, "output": "text"}
    )


def refusal(source: dict[str, Any]) -> ContractError:
    with pytest.raises(ContractError) as caught:
        check(gather(operation(source)), lambda: False)
    return caught.value


def go_on() -> bool:
    return False


@pytest.mark.parametrize(
    ("source", "images", "clips"),
    [
        ({"kind": "text", "text": "a"}, [], []),
        ({"kind": "text_batch", "texts": ["a"]}, [], []),
        ({"kind": "rerank", "query": "a", "documents": ["b"]}, [], []),
        (one("png", png()), ["input"], []),
        ({"kind": "audio", **SOUND}, [], ["input"]),
        (
            {
                "kind": "messages",
                "messages": [
                    {"role": "system", "content": "a"},
                    {"role": "user", "content": [TEXT, part(SOUND), PICTURE]},
                    {"role": "user", "content": [PICTURE]},
                ],
            },
            ["input.messages[1].content[2]", "input.messages[2].content[0]"],
            ["input.messages[1].content[1]"],
        ),
        (conversation(2, 3), ["input.messages[0].content[0]"], []),
        (
            {
                "kind": "content_batch",
                "items": [{"parts": [TEXT]}, {"parts": [PICTURE, part(SOUND)]}],
            },
            ["input.items[1].parts[0]"],
            ["input.items[1].parts[1]"],
        ),
        (
            {
                "kind": "decision",
                "state": None,
                "questions": {"a": {"type": "noul", "instructions": "b"}},
                "images": [image("png", png())] * 2,
                "audio": [SOUND],
            },
            ["input.images[0]", "input.images[1]"],
            ["input.audio[0]"],
        ),
    ],
    ids=lambda value: value.get("kind") if isinstance(value, dict) else "",
)
def test_media_are_found_in_place(
    source: dict[str, Any], images: list[str], clips: list[str]
) -> None:
    media = find_media(operation(source).input)
    assert [each.place for each in media.images] == images
    assert [each.place for each in media.clips] == clips
    assert bool(media) is bool(images or clips)
    checked = check(gather(operation(source)), go_on)
    assert [each.place for each in checked.images] == images
    assert [each.place for each in checked.clips] == clips


def test_an_image_goes_upstream_as_it_came() -> None:
    checked = check(gather(operation(one("jpeg", jpeg()))), go_on).images[0]
    assert checked.base64 == text_of(jpeg())
    assert checked.data_url == f"data:image/jpeg;base64,{text_of(jpeg())}"


@pytest.mark.parametrize("encoding", ["pcm_s16le", "pcm_f32le"])
@pytest.mark.parametrize("frames", [1, 2, 3])
def test_a_clip_goes_upstream_as_a_file_of_its_samples(encoding: str, frames: int) -> None:
    samples = bytes(range(4)) * frames
    source = said(part(clip(samples, encoding)))
    checked = check(gather(operation(source)), go_on).clips[0]
    file = b64decode(checked.wav_base64, validate=True)
    assert file.startswith(b"RIFF")
    assert file.endswith(samples)
    assert int.from_bytes(file[4:8], "little") == len(file) - 8


@pytest.mark.parametrize(
    "source",
    [
        said(*[PICTURE] * 4),
        conversation(128, 128),
        images_of(8 * MIB, 8 * MIB),
        said(*[part(SOUND)] * 4),
        clips_of(8 * MIB, 8 * MIB - 4, 4),
    ],
    ids=["4 images", "128 messages and parts", "16 MiB of images", "4 clips", "16 MiB of audio"],
)
def test_bounds_are_within(source: dict[str, Any]) -> None:
    assert check(gather(operation(source)), go_on)


def test_conversations_without_an_image_are_not_counted() -> None:
    many = [{"role": "user", "content": "Hello."}] * 200
    source = {
        "kind": "messages",
        "messages": [*many, *said(*[TEXT] * 200, part(SOUND))["messages"]],
    }
    assert check(gather(operation(source)), go_on)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (said(*[PICTURE] * 5), "`input` is over `image_count`: at most 4 are allowed, it has 5"),
        (
            conversation(129, 1),
            "`input` is over `message_count`: at most 128 are allowed, it has 129",
        ),
        (
            conversation(2, 129),
            "`input` is over `content_parts`: at most 128 are allowed, it has 129",
        ),
        (
            images_of(100, 8 * MIB + 1),
            "`input.messages[0].content[1]` is over `image_bytes`: at most 8388608 are allowed,"
            " it has 8388609",
        ),
        (
            images_of(8 * MIB, 8 * MIB, 100),
            "`input` is over `total_image_bytes`: at most 16777216 are allowed, it has 16777316",
        ),
        (
            said(*[part(SOUND)] * 5),
            "`input` is over `audio_count`: at most 4 are allowed, it has 5",
        ),
        (
            clips_of(8 * MIB, 8 * MIB, 4),
            "`input` is over `total_audio_bytes`: at most 16777216 are allowed, it has 16777220",
        ),
    ],
)
def test_a_bound_is_refused_in_words(source: dict[str, Any], message: str) -> None:
    refused = refusal(source)
    assert (refused.code, refused.message) == (Code.REQUEST_LIMIT, message)


def test_too_much_text_is_refused_before_it_is_decoded() -> None:
    text = "A" * 11_184_813
    refused = refusal({"kind": "image", "encoding": "png", "data_base64": text})
    assert refused.code is Code.REQUEST_LIMIT
    assert "`image_bytes`: at most 8388608" in refused.message
    assert "it has 11184813 characters" in refused.message


def test_the_place_of_a_bad_file_is_named() -> None:
    refused = refusal(said(TEXT, PICTURE, part(image("jpeg", png()))))
    assert refused.code is Code.INVALID_REQUEST
    assert refused.message.endswith(
        "`input.messages[0].content[2]` is declared jpeg, but holds png"
    )


def test_stops_wherever_it_is_told() -> None:
    media = gather(operation(said(PICTURE, part(image("jpeg", jpeg())), part(SOUND))))
    asked = 0
    last = 0

    def stopped() -> bool:
        nonlocal asked
        asked += 1
        return asked == last

    check(media, stopped)
    times = asked
    assert times > 20
    for last in range(1, times + 1):
        asked = 0
        with pytest.raises(Stopped):
            check(media, stopped)
        assert asked == last
