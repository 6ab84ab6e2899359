"""The file server of the tests does what it is said to do: what is asserted of fetching rests on it."""

from __future__ import annotations

import hashlib
import time

import pytest

from support.client_pod import Answer, ClientPod, NoAnswer
from support.models_server import EMPTY, LONG, NOT_A_MODEL, ModelsServer

NAME = "tiny-embed.gguf"


def ask(server: ModelsServer, client: ClientPod, way: str, **headers: str) -> Answer:
    return client.ask(server.url(NAME, way), headers=headers)


def test_a_file_comes_whole_and_in_parts(
    models_server: ModelsServer, client_pod: ClientPod
) -> None:
    whole = ask(models_server, client_pod, "plain")
    assert hashlib.sha256(whole.body).hexdigest() == models_server.digest(NAME)
    part = ask(models_server, client_pod, "plain", Range="bytes=1000-")
    assert (part.status, part.body) == (206, whole.body[1000:])
    size = len(whole.body)
    assert part.headers["content-range"] == f"bytes 1000-{size - 1}/{size}"


def test_ways_in_which_a_file_comes(models_server: ModelsServer, client_pod: ClientPod) -> None:
    size = (models_server.folder / NAME).stat().st_size
    again = ask(models_server, client_pod, "no-ranges", Range="bytes=1000-")
    assert (again.status, len(again.body)) == (200, size)
    unsaid = ask(models_server, client_pod, "no-length")
    assert (len(unsaid.body), "content-length" in unsaid.headers) == (size, False)
    half = ask(models_server, client_pod, "truncated")
    assert len(half.body) == int(half.headers["content-length"]) == size // 2
    moved = ask(models_server, client_pod, "redirect")
    assert (moved.status, moved.headers["location"]) == (302, f"/plain/{NAME}")
    assert ask(models_server, client_pod, "status/503").status == 503
    with pytest.raises(NoAnswer, match="IncompleteRead"):
        ask(models_server, client_pod, "cut/1000")
    started = time.monotonic()
    ask(models_server, client_pod, f"slow/{size // 2}")
    assert time.monotonic() - started > 1.5


def test_a_file_that_comes_and_goes(models_server: ModelsServer, client_pod: ClientPod) -> None:
    key = f"{time.time_ns()}"
    assert ask(models_server, client_pod, f"switch/{key}").status == 404
    models_server.switch(key, on=True)
    assert ask(models_server, client_pod, f"switch/{key}").status == 200
    models_server.switch(key, on=False)
    assert ask(models_server, client_pod, f"switch/{key}").status == 404
    assert models_server.asked(key) == [{"path": f"/switch/{key}/{NAME}", "range": ""}] * 3


def test_files_that_are_no_models(models_server: ModelsServer, client_pod: ClientPod) -> None:
    assert client_pod.ask(models_server.url(NOT_A_MODEL)).body.startswith(b"<!doctype html>")
    assert client_pod.ask(models_server.url(EMPTY)).body == b""
    assert client_pod.ask(models_server.url("nothing.gguf")).status == 404
    assert client_pod.ask(models_server.url(LONG)).body.startswith(b"GGUF")
