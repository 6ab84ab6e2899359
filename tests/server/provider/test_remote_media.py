"""What may not be asked of an engine: to fetch, or to abort. Everything else goes on unjudged."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_server.contract.errors import Code, ContractError
from pumas_server.provider.envelope import read_envelope
from pumas_server.provider.remote_media import refuse_remote_media, refuse_trailing_audio
from support.senses import jpeg, png, text_of, wav

HTTP = "http://10.0.0.1/x.png"
DATA = "data:image/png;base64,iVBORw0KGgo="


def members(**body: Any) -> tuple[tuple[str, object], ...]:
    return read_envelope(json.dumps({"model": "m", **body}).encode()).members


def refusal(**body: Any) -> str:
    with pytest.raises(ContractError) as caught:
        refuse_remote_media(members(**body))
    assert caught.value.code is Code.INVALID_REQUEST
    assert "10.0.0.1" not in caught.value.message
    return caught.value.message


def message(*parts: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(parts)}]}


URLS = [
    HTTP,
    "https://far.example/x.png",
    "HTTP://far.example",
    "file:///etc/passwd",
    "ftp://far.example/x",
    "//far.example/x",
    "/etc/passwd",
    "x.png",
    "",
    " data:image/png;base64,AA",
    # No engine is known to take it as data; what it is taken for is not found out.
    "DATA:image/png;base64,AA",
]


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize(
    ("part", "member"),
    [
        (lambda url: {"type": "image_url", "image_url": {"url": url}}, "image_url"),
        (lambda url: {"type": "image_url", "image_url": url}, "image_url"),
        (lambda url: {"type": "video_url", "video_url": {"url": url}}, "video_url"),
        (lambda url: {"type": "audio_url", "audio_url": {"url": url}}, "audio_url"),
        (lambda url: {"type": "input_audio", "input_audio": {"url": url}}, "input_audio"),
        (lambda url: {"type": "input_video", "input_video": {"url": url}}, "input_video"),
        # Of Responses.
        (lambda url: {"type": "input_image", "image_url": url}, "image_url"),
        (lambda url: {"type": "input_file", "file_url": url}, "file_url"),
        # Of Messages.
        (lambda url: {"type": "image", "source": {"type": "url", "url": url}}, "url"),
    ],
)
def test_a_medium_that_is_to_be_fetched(part: Any, member: str, url: str) -> None:
    for body in (
        message(part(url)),
        message({"type": "text", "text": "a"}, part(DATA), part(url)),
        {"input": [{"content": [part(url)]}]},
        {"anything": {"deep": [[{"x": part(url)}]]}},
        part(url) if member != "url" else {"source": part(url)["source"]},
    ):
        assert refusal(**body) == (
            f"request does not match the contract: `{member}` needs to be a `data:` URL;"
            " nothing is fetched for a request"
        )


@pytest.mark.parametrize(
    "body",
    [
        message({"type": "image_url", "image_url": {"url": DATA}}),
        message({"type": "image_url", "image_url": {"url": DATA, "detail": "low"}}),
        message({"type": "input_image", "image_url": DATA}),
        message({"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}),
        message({"type": "image", "source": {"type": "base64", "data": "AA"}}),
        message({"type": "image", "source": {"type": "url", "url": DATA}}),
        # Not media: an engine reads these as words.
        message({"type": "text", "text": HTTP}),
        {"messages": [{"role": "user", "content": HTTP}]},
        {"tools": [{"function": {"parameters": {"properties": {"url": {"type": "string"}}}}}]},
        {"metadata": {"url": HTTP}},
        # For the engine to refuse.
        message({"type": "image_url", "image_url": None}),
        message({"type": "image_url", "image_url": 7}),
        message({"type": "image_url", "image_url": {"url": None}}),
        {"image_url": [HTTP]},
        {},
    ],
)
def test_everything_else_goes_on(body: dict[str, Any]) -> None:
    refuse_remote_media(members(**body))


def test_a_member_that_is_written_twice_is_looked_at_twice() -> None:
    raw = b'{"model":"m","image_url":"%s","image_url":"%s"}'
    for first, second in ((HTTP, DATA), (DATA, HTTP)):
        told = read_envelope(raw % (first.encode(), second.encode())).members
        with pytest.raises(ContractError):
            refuse_remote_media(told)


def test_however_deep_it_is_hidden() -> None:
    held: Any = {"image_url": HTTP}
    for _ in range(100_000):
        held = [held]
    with pytest.raises(ContractError):
        refuse_remote_media([("messages", held)])


_leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just(DATA)
_bodies = st.recursive(
    _leaves,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["url", "type", "image_url", "file", "x"]), inner)
    ),
    max_leaves=15,
)


@given(body=_bodies, path=st.lists(st.sampled_from(["x", 0]), max_size=5))
def test_wherever_a_holder_is_it_is_found(body: Any, path: list[Any]) -> None:
    held: Any = {"image_url": {"url": HTTP}, "also": body}
    for step in path:
        held = {step: held} if isinstance(step, str) else [body, held]
    with pytest.raises(ContractError):
        refuse_remote_media([("input", held)])


@given(body=_bodies)
def test_no_body_makes_it_stumble(body: Any) -> None:
    for look in (refuse_remote_media, refuse_trailing_audio):
        try:
            look([("input", body)])
        except ContractError as error:
            assert error.code is Code.INVALID_REQUEST


@pytest.mark.parametrize("url", [HTTP, "https://far.example/a.wav", "file:///etc/passwd", ":"])
@pytest.mark.parametrize(
    ("holder", "name"),
    [("input_audio", "data"), ("input_video", "data"), ("file", "file_data")],
)
def test_bytes_that_are_an_address(holder: str, name: str, url: str) -> None:
    """llama.cpp fetches them like an image's URL."""
    body = message({"type": holder, holder: {name: url, "format": "wav"}})
    assert refusal(**body) == (
        f"request does not match the contract: `{holder}.{name}` needs to be base64;"
        " nothing is fetched for a request"
    )
    for sound in ("UklGRg==", "data:audio/wav;base64,UklGRg=="):
        refuse_remote_media(members(**message({"type": holder, holder: {name: sound}})))


def picture(base64: str, kind: str = "image/png") -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{base64}"}}


SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
WORD = {"type": "text", "text": "\n"}
PNG, JPEG = picture(text_of(png())), picture(text_of(jpeg()), "image/jpeg")


@pytest.mark.parametrize(
    ("content", "refused"),
    [
        ([SOUND], True),
        ([WORD, SOUND], True),
        ([PNG, SOUND], True),
        ([SOUND, {"type": "text", "text": ""}], True),
        ([SOUND, {"type": "text"}], True),
        ([SOUND, None], True),
        # Whatever it is called, the engine looks at the bytes.
        ([picture(text_of(wav()))], True),
        ([picture(text_of(wav()), "audio/wav")], True),
        ([{"type": "image_url", "image_url": "data:image/png;base64," + text_of(wav())}], True),
        ([picture("SUQz")], True),
        ([picture("")], True),
        ([{"type": "input_video", "input_video": {"data": "AAAA"}}], True),
        ([SOUND, WORD], False),
        ([SOUND, PNG], False),
        ([PNG], False),
        ([JPEG], False),
        ([{"type": "image_url", "image_url": PNG["image_url"]["url"]}], False),
        ([WORD], False),
        ([{"type": "text", "text": ""}], False),
        ([], False),
        ("words", False),
        (None, False),
    ],
)
@pytest.mark.parametrize(
    "within",
    [
        lambda item: {"input": [item]},
        lambda item: {"input": item},
        lambda item: {"input": [{"content": [WORD]}, item, "words"]},
        lambda item: {"content": [item]},
        lambda item: {"content": item},
    ],
)
def test_content_to_embed_does_not_end_with_audio(within: Any, content: Any, refused: bool) -> None:
    body = members(**within({"content": content}))
    if not refused:
        return refuse_trailing_audio(body)
    with pytest.raises(ContractError, match="may end with audio") as caught:
        refuse_trailing_audio(body)
    assert caught.value.code is Code.INVALID_REQUEST
    return None


def test_chats_template_puts_words_behind_audio() -> None:
    refuse_trailing_audio(members(**message(SOUND)))
