"""Where a source is fetched from."""

from __future__ import annotations

from typing import Any

import pytest

from pumas_crds.source import Source
from pumas_server.worker.source_url import source_url

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
