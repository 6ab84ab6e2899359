"""What a forwarded body may not ask of an engine: to fetch media, or to embed what makes it abort.

An engine fetches a medium that is written as `http://…` itself, from inside the cluster, on behalf
of whoever wrote it: an `image_url`, but also the `data` of an `input_audio`. So media come as
`data:` URLs or as base64, or not at all. Nothing else of a body is judged here.
"""

from __future__ import annotations

from collections.abc import Iterable

from pumas_server.contract.errors import invalid

#: Members that hold a medium: its URL, or an object with it as `url`, or with its bytes.
_HOLDERS = frozenset(
    ("image_url", "video_url", "audio_url", "file_url", "input_audio", "input_video", "file")
)
#: Where such an object has the bytes, in base64, which has no colon; an engine takes URLs too.
_BYTES = ("data", "file_data")
_DATA = "data:"

#: What an engine reads content to embed from; `content` where there is no `input`.
_EMBEDDED = ("input", "content")
#: How base64 of a PNG and of a JPEG begins: an engine tells sound from sight by the bytes alone.
_IMAGES = ("iVBORw0KGgo", "/9j/")


def refuse_remote_media(members: Iterable[tuple[str, object]]) -> None:
    """Raise `ContractError` (invalid_request) for a medium that is to be fetched.

    Walks without recursion: a body may nest as deep as its parser let it.
    """
    waiting: list[object] = [dict([member]) for member in members]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            for holder in sorted(_HOLDERS.intersection(value)):
                _check(value[holder], holder)
            if value.get("type") == "url":
                _check(value.get("url"), "url")
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _check(held: object, holder: str) -> None:
    url = held.get("url") if isinstance(held, dict) else held
    if isinstance(url, str) and not url.startswith(_DATA):
        raise invalid(f"`{holder}` needs to be a `data:` URL; nothing is fetched for a request")
    for name in _BYTES:
        text = held.get(name) if isinstance(held, dict) else None
        if isinstance(text, str) and ":" in text and not text.startswith(_DATA):
            raise invalid(f"`{holder}.{name}` needs to be base64; nothing is fetched for a request")


def refuse_trailing_audio(members: Iterable[tuple[str, object]]) -> None:
    """Raise `ContractError` (invalid_request) for content to embed that may end with audio.

    llama.cpp aborts on it, and everybody's calls with it, also where an empty text follows or the
    audio is written as an image. So what has media ends with text or with a PNG or a JPEG.
    """
    for name, value in members:
        if name not in _EMBEDDED:
            continue
        for item in value if isinstance(value, list) else [value]:
            content = item.get("content") if isinstance(item, dict) else None
            if isinstance(content, list) and not _may_end(content):
                raise invalid(
                    f"`{name}` has content that may end with audio, on which the engine would"
                    " abort; put a part of text behind it"
                )


def _may_end(content: list[object]) -> bool:
    if all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        return True
    match content[-1]:
        case {"type": "text", "text": str(text)}:
            return bool(text)
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
            return url.partition(",")[2].startswith(_IMAGES)
        case _:
            return False
