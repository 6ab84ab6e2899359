"""Where a source is fetched from."""

from __future__ import annotations

from typing import Any

import pytest

from pumas_crds.source import Source
from pumas_server.worker.source_url import neighbour, source_path, source_url

HUB = {"repo": "org/model", "file": "q4 x/m.gguf"}


@pytest.mark.parametrize(
    ("source", "environ", "url"),
    [
        ({"path": "/m"}, {}, None),
        ({"persistentVolumeClaim": {"claimName": "c", "path": "m"}}, {}, None),
        ({"http": {"url": "http://h/m?a=b"}}, {}, "http://h/m?a=b"),
        (
            {"http": {"url": "http://h/%41/ü?$(A)='\"\u2028"}},
            {},
            "http://h/%41/%C3%BC?$(A)='\"%E2%80%A8",
        ),
        (
            {"huggingFace": HUB},
            {},
            "https://huggingface.co/org/model/resolve/main/q4%20x/m.gguf",
        ),
        (
            {"huggingFace": {**HUB, "revision": "refs/pr/1"}},
            {"HF_ENDPOINT": ""},
            "https://huggingface.co/org/model/resolve/refs%2Fpr%2F1/q4%20x/m.gguf",
        ),
        (
            {"huggingFace": HUB},
            {"HF_ENDPOINT": "http://hub.example:81/mirror/"},
            "http://hub.example:81/mirror/org/model/resolve/main/q4%20x/m.gguf",
        ),
    ],
)
def test_urls(source: dict[str, Any], environ: dict[str, str], url: str | None) -> None:
    assert source_url(Source.model_validate(source), environ) == url


@pytest.mark.parametrize(
    ("source", "path", "beside", "url"),
    [
        (
            {"http": {"url": "http://h:81/a%2Fb/ü/m.onnx?sig=%2F&x"}},
            "a%2Fb/%C3%BC/m.onnx",
            "a%2Fb/%C3%BC/c%20d.json",
            "http://h:81/a%2Fb/%C3%BC/c%20d.json?sig=%2F&x",
        ),
        ({"http": {"url": "http://h/m.onnx"}}, "m.onnx", "c.json", "http://h/c.json"),
        ({"http": {"url": "http://h"}}, "", "c.json", "http://h/c.json"),
        (
            {"huggingFace": {**HUB, "revision": "v1"}},
            "q4%20x/m.gguf",
            "q4%20x/1%25/c.json",
            "https://huggingface.co/org/model/resolve/v1/q4%20x/1%25/c.json",
        ),
    ],
)
def test_what_lies_beside(source: dict[str, Any], path: str, beside: str, url: str) -> None:
    told = Source.model_validate(source)
    assert source_path(told) == path
    assert source_url(neighbour(told, path), {}) == source_url(told, {}) or not path
    assert source_url(neighbour(told, beside), {}) == url


@pytest.mark.parametrize(
    "source", [{"path": "/m"}, {"persistentVolumeClaim": {"claimName": "c", "path": "m"}}]
)
def test_what_is_here_has_nothing_beside_it_to_fetch(source: dict[str, Any]) -> None:
    told = Source.model_validate(source)
    assert source_path(told) is None
    with pytest.raises(ValueError, match="no neighbours"):
        neighbour(told, "c.json")
