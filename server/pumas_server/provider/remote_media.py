"""What a forwarded body may not ask of an engine: to fetch media, or to embed what makes it abort.

An engine fetches an `image_url` of `http://…` itself, from inside the cluster, on behalf of whoever
wrote it. So media come as `data:` URLs, or not at all. Nothing else of a body is judged here.
"""

from __future__ import annotations

from collections.abc import Iterable

from pumas_server.contract.errors import invalid

#: Members that hold a medium: its URL, or an object with it as `url`.
_HOLDERS = ("image_url", "video_url", "audio_url", "file_url", "input_audio", "input_video", "file")
_DATA = "data:"


def refuse_remote_media(members: Iterable[tuple[str, object]]) -> None:
    """Raise `ContractError` (invalid_request) for a medium that is to be fetched.

    Walks without recursion: a body may nest as deep as its parser let it.
    """
    waiting: list[object] = [dict([member]) for member in members]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            for holder in _HOLDERS:
                _check(value.get(holder), holder)
            if value.get("type") == "url":
                _check(value.get("url"), "url")
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _check(held: object, holder: str) -> None:
    url = held.get("url") if isinstance(held, dict) else held
    if isinstance(url, str) and not url.startswith(_DATA):
        raise invalid(f"`{holder}` needs to be a `data:` URL; nothing is fetched for a request")


def refuse_trailing_audio(members: Iterable[tuple[str, object]]) -> None:
    """Raise `ContractError` (invalid_request) for content to embed that ends with audio.

    llama.cpp aborts on it, and everybody's calls with it.
    """
    for name, value in members:
        if name != "input":
            continue
        for item in value if isinstance(value, list) else [value]:
            content = item.get("content") if isinstance(item, dict) else None
            last = content[-1] if isinstance(content, list) and content else None
            if isinstance(last, dict) and last.get("type") == "input_audio":
                raise invalid(
                    "`input` has content that ends with audio, on which the engine would abort;"
                    " put a part of text behind it"
                )
