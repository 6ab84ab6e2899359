"""Parts as an engine takes them: order, roles, the caller's own bytes, clips as WAV files."""

from __future__ import annotations

import io
import json
import threading
import wave
from base64 import b64decode
from typing import Any

import pytest

from pumas_server.contract.inputs import ContentBatchInput, DecisionInput, MessagesInput
from pumas_server.contract.request import Operation
from pumas_server.media.request_media import CheckedClip, check, gather
from pumas_server.provider.content import Content, image_url
from pumas_server.provider.json_pieces import encode
from support.documents import operation, text_part
from support.senses import audio_part, clip, image, image_part, jpeg, pcm, png, said, text_of


def checked(asked: Operation) -> tuple[CheckedClip, ...]:
    return check(gather(asked), threading.Event().is_set).clips


def plain(value: object) -> Any:
    return json.loads(encode(value))


def conversation(*messages: Any) -> list[Any]:
    """What becomes of the messages."""
    wanted = {"kind": "messages", "messages": list(messages)}
    asked = operation(input=wanted, capability=..., options=...)
    assert isinstance(asked.input, MessagesInput)
    content = Content(checked(asked))
    return [plain(content.message(message)) for message in asked.input.messages]


def sent(base64: str) -> dict[str, Any]:
    return {"type": "input_audio", "input_audio": {"data": base64, "format": "wav"}}


def test_case_38_order_and_roles_are_kept() -> None:
    first, second = png(), jpeg()
    assert conversation(
        {"role": "system", "content": [text_part("be"), text_part(" short")]},
        {
            "role": "user",
            "content": [text_part("a"), image_part(first), text_part("b"),
                        image_part(second, "jpeg")],
        },
        {"role": "assistant", "content": "yes"},
    ) == [
        {"role": "system", "content": "be short"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "image_url",
                 "image_url": {"url": f"data:image/png;base64,{text_of(first)}"}},
                {"type": "text", "text": "b"},
                {"type": "image_url",
                 "image_url": {"url": f"data:image/jpeg;base64,{text_of(second)}"}},
            ],
        },
        {"role": "assistant", "content": "yes"},
    ]  # fmt: skip


@pytest.mark.parametrize("floats", [False, True])
@pytest.mark.parametrize("channels", [1, 2])
def test_case_49_a_clip_is_a_wav_file_whose_samples_are_the_callers(
    channels: int, floats: bool
) -> None:
    part = {"kind": "audio", **clip(101, 22_050, channels, floats=floats)}
    ((message),) = conversation({"role": "user", "content": [part, text_part("what?")]})
    audio, text = message["content"]
    assert text == {"type": "text", "text": "what?"}
    file = b64decode(audio["input_audio"]["data"], validate=True)
    assert audio == sent(text_of(file))
    samples = pcm(101, channels, floats=floats)
    assert file.endswith(samples)
    if not floats:
        with wave.open(io.BytesIO(file)) as read:
            assert (read.getnchannels(), read.getframerate()) == (channels, 22_050)
            assert read.readframes(101) == samples


def test_each_clip_is_its_own_wherever_it_stands() -> None:
    first, second, third = ({"kind": "audio", **clip(count)} for count in (10, 20, 30))
    messages = conversation(
        {"role": "user", "content": [first, second]},
        {"role": "assistant", "content": "go on"},
        {"role": "user", "content": [third]},
    )
    parts = [*messages[0]["content"], *messages[2]["content"]]
    sizes = [len(b64decode(part["input_audio"]["data"])) for part in parts]
    assert [size - 2 * count for size, count in zip(sizes, (10, 20, 30), strict=True)] == [
        sizes[0] - 20
    ] * 3


@pytest.mark.parametrize(
    ("parts", "last"),
    [
        ([audio_part()], "\n"),
        ([text_part("a"), audio_part()], "\n"),
        ([audio_part(), text_part("a")], "a"),
        ([text_part("a")], "a"),
        ([audio_part(), image_part()], None),
    ],
)
def test_an_item_never_ends_with_audio(parts: list[Any], last: str | None) -> None:
    wanted = {"kind": "content_batch", "items": [{"parts": parts}]}
    asked = operation(input=wanted, output="embeddings_float32", capability=..., options=...)
    assert isinstance(asked.input, ContentBatchInput)
    item = plain(Content(checked(asked)).item(asked.input.items[0].parts))
    assert len(item["content"]) == len(parts) + (last == "\n")
    end = item["content"][-1]
    assert end.get("text") == last
    assert end["type"] == ("image_url" if last is None else "text")


def test_clips_and_images_of_a_decision_are_data_urls() -> None:
    picture = jpeg()
    wanted = {
        "kind": "decision",
        "state": "s",
        "questions": {"q": {"type": "noul", "instructions": "i"}},
        "images": [image(picture, "jpeg")],
        "audio": [clip(50)],
    }
    asked = operation(input=wanted, output="decisions", capability=..., options=...)
    assert isinstance(asked.input, DecisionInput) and asked.input.images and asked.input.audio
    url = plain(image_url(asked.input.images[0]))
    assert url == f"data:image/jpeg;base64,{text_of(picture)}"
    heard = plain(Content(checked(asked)).wav_url(asked.input.audio[0]))
    kind, _, base64 = heard.partition(",")
    assert kind == "data:audio/wav;base64"
    assert b64decode(base64, validate=True)[:4] == b"RIFF"


def test_a_clip_that_was_not_checked_never_goes_out() -> None:
    asked = operation(input=said(audio_part()), capability=..., options=...)
    assert isinstance(asked.input, MessagesInput)
    with pytest.raises(ValueError, match="1600 samples was not checked"):
        Content(()).message(asked.input.messages[0])
