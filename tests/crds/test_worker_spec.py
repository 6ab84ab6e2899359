"""Where a pod finds its weights file."""

from __future__ import annotations

from typing import Any

from pumas_crds.vocabulary import Runtime
from pumas_crds.worker_spec import WorkerSpec

HUB = {"huggingFace": {"repo": "o/m", "file": "q4/m.gguf"}}


def file(source: dict[str, Any], sha256: str | None = None) -> str:
    spec = WorkerSpec.model_validate(
        {"alias": "a", "runtime": Runtime.LLAMA_CPP, "source": source, "sha256": sha256}
    )
    return spec.weights_file("/models")


def test_a_file_that_is_there_is_served_where_it_lies() -> None:
    assert file({"path": "/var/m.gguf"}) == "/var/m.gguf"
    claim = {"persistentVolumeClaim": {"claimName": "c", "path": "q4/m.gguf"}}
    assert file(claim) == "/source/q4/m.gguf"


def test_a_fetched_file_lies_where_its_digest_says() -> None:
    digest = "a5" * 32
    assert file(HUB, digest) == f"/models/sha256-{digest}/m.gguf"


def test_without_a_digest_every_source_has_its_own_folder() -> None:
    others: list[dict[str, Any]] = [
        {"huggingFace": {"repo": "o/m", "file": "q4/m.gguf", "revision": "v2"}},
        {"huggingFace": {"repo": "o/n", "file": "q4/m.gguf"}},
        {"http": {"url": "http://h/m.gguf"}},
        {"http": {"url": "http://h/m.gguf?v=2"}},
    ]
    files = {file(HUB), *map(file, others)}
    assert len(files) == len(others) + 1
    assert {name.rpartition("/")[2] for name in files} == {"m.gguf"}
    assert all(name.startswith("/models/source-") for name in files)
    assert file(HUB) == file(HUB)
