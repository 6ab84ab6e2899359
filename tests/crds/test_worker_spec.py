"""Where a pod finds its files."""

from __future__ import annotations

from typing import Any

from pumas_crds.vocabulary import Runtime
from pumas_crds.worker_spec import WorkerSpec

HUB = {"huggingFace": {"repo": "o/m", "file": "q4/m.gguf"}}


DIGEST = "a5" * 32


def spec(source: dict[str, Any], runtime: Runtime = Runtime.LLAMA_CPP, **more: Any) -> WorkerSpec:
    return WorkerSpec.model_validate(
        {"alias": "a", "runtime": runtime, "source": source, **more}, by_alias=True, by_name=True
    )


def file(source: dict[str, Any], **more: Any) -> str:
    return spec(source, **more).weights_file("/models")


def claim(name: str, path: str) -> dict[str, Any]:
    return {"persistentVolumeClaim": {"claimName": name, "path": path}}


def projector(source: dict[str, Any], of: dict[str, Any], **more: Any) -> str | None:
    return spec(of, projector=source, **more).projector_file("/models")


def test_a_file_that_is_there_is_served_where_it_lies() -> None:
    assert file({"path": "/var/m.gguf"}) == "/var/m.gguf"
    assert file(claim("c", "q4/m.gguf")) == "/source/q4/m.gguf"


def test_a_fetched_file_lies_where_its_digest_says_as_it_did_before() -> None:
    assert file(HUB, sha256=DIGEST) == f"/models/sha256-{DIGEST}/m.gguf"
    assert file({"http": {"url": "http://h/a/m.gguf"}}, sha256=DIGEST) == (
        f"/models/sha256-{DIGEST}/m.gguf"
    )


def test_a_folder_of_files_never_lies_by_the_digest_of_one_of_them() -> None:
    onnx = {"huggingFace": {"repo": "o/m", "file": "onnx/model.onnx"}}
    other = {"huggingFace": {"repo": "o/n", "file": "onnx/model.onnx"}}
    places = {file(source, runtime=Runtime.ONNX_RUNTIME, sha256=DIGEST) for source in (onnx, other)}
    assert len(places) == 2
    assert all(place.endswith("/onnx/model.onnx") for place in places)
    assert all(place.startswith("/models/source-") for place in places)


def test_another_digest_of_one_of_its_files_is_another_folder() -> None:
    onnx = {"huggingFace": {"repo": "o/m", "file": "onnx/model.onnx"}}
    digests = (None, DIGEST, "b6" * 32)
    places = {file(onnx, runtime=Runtime.ONNX_RUNTIME, sha256=digest) for digest in digests}
    assert len(places) == 3


def test_without_a_projector_there_is_no_place_of_one() -> None:
    assert spec(HUB).projector_file("/models") is None


def test_a_projector_lies_where_weights_of_that_source_would() -> None:
    assert projector({"path": "/var/p.gguf"}, HUB) == "/var/p.gguf"
    fetched = {"huggingFace": {"repo": "o/m", "file": "mmproj/p.gguf"}}
    assert projector(fetched, HUB) == file(fetched)
    # The digest is of the weights alone.
    assert projector(fetched, HUB, sha256=DIGEST) == file(fetched)


def test_a_projector_of_another_claim_has_a_folder_of_its_own() -> None:
    assert projector(claim("c", "p.gguf"), claim("c", "m.gguf")) == "/source/p.gguf"
    assert projector(claim("d", "p.gguf"), claim("c", "m.gguf")) == "/projector/p.gguf"
    assert projector(claim("d", "p.gguf"), HUB) == "/projector/p.gguf"


def test_without_a_digest_every_source_has_its_own_folder() -> None:
    others: list[dict[str, Any]] = [
        {"huggingFace": {"repo": "o/m", "file": "q4/m.gguf", "revision": "v2"}},
        {"huggingFace": {"repo": "o/n", "file": "q4/m.gguf"}},
        {"http": {"url": "http://h/m.gguf"}},
        {"http": {"url": "http://h/m.gguf?v=2"}},
    ]
    files = {file(HUB), *map(file, others)}
    assert len(files) == len(others) + 1
    assert {name.split("/", 3)[3] for name in files} == {"m.gguf"}
    assert all(name.startswith("/models/source-") for name in files)
    assert file(HUB) == file(HUB)
