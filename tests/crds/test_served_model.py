"""What a ServedModel means beyond its bounds: effective names, endpoint addresses, wire names."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from pumas_crds.served_model import ExternalEndpoint, ServedModel
from pumas_crds.vocabulary import LoadState, Runtime

DIGEST = "a5" * 32


def model(name: str = "a-model", **spec: Any) -> ServedModel:
    spec.setdefault("source", {"path": "model.gguf"})
    return ServedModel.model_validate({"metadata": {"name": name}, "spec": spec})


def faults(document: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(ValidationError) as refusal:
        ServedModel.model_validate(document)
    return {".".join(map(str, e["loc"])): e["msg"] for e in refusal.value.errors()}


def test_the_alias_is_the_objects_name_unless_it_is_set() -> None:
    assert model().alias == "a-model"
    assert model(alias="org/A.model:v1+x").alias == "org/A.model:v1+x"


def test_the_profile_is_default_unless_it_is_set() -> None:
    assert model().profile == "default"
    assert model(profile="long").profile == "long"


def test_a_name_too_long_for_an_alias_needs_one() -> None:
    assert model("n" * 192).alias == "n" * 192
    assert model("n" * 193, alias="short").alias == "short"
    with pytest.raises(ValidationError, match=r"set spec\.alias"):
        model("n" * 193)


@pytest.mark.parametrize(
    "alias",
    ["", "/a", "a/", "a//b", "-a", "a/-b", "a b", "a\n", "ä", "a" * 193],
)
def test_aliases_that_are_refused(alias: str) -> None:
    with pytest.raises(ValidationError, match="alias"):
        model(alias=alias)


def test_the_wire_is_camel_case() -> None:
    read = model(sha256=DIGEST, drainSeconds=5, engine={"cacheTypeK": "q8_0", "gpuLayers": 0})
    assert read.spec.engine is not None
    assert (read.spec.drain_seconds, read.spec.engine.cache_type_k) == (5, "q8_0")
    written = read.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    assert written == {
        "metadata": {"name": "a-model"},
        "spec": {
            "source": {"path": "model.gguf"},
            "sha256": DIGEST,
            "engine": {"cacheTypeK": "q8_0", "gpuLayers": 0},
            "drainSeconds": 5,
        },
    }
    assert ServedModel.model_validate(written) == read


def test_unknown_fields_are_named_by_their_path() -> None:
    document = {
        "metadata": {"name": "a"},
        "spec": {
            "source": {"path": "m", "url": "x"},
            "engine": {"contextLength": 1},
            "activation": {"minReplicas": 1},
        },
    }
    assert set(faults(document)) == {
        "spec.source.url",
        "spec.engine.contextLength",
        "spec.activation.minReplicas",
    }


def test_metadata_may_hold_what_kubernetes_puts_there() -> None:
    metadata = {"name": "a", "managedFields": [], "labels": {"team": "x"}}
    document = {"metadata": metadata, "spec": {"source": {"path": "m"}}}
    assert ServedModel.model_validate(document).metadata.labels == {"team": "x"}


@pytest.mark.parametrize("field", ["apiVersion", "kind"])
def test_another_kind_or_version_is_refused(field: str) -> None:
    document = {"metadata": {"name": "a"}, "spec": {"source": {"path": "m"}}, field: "v1"}
    assert set(faults(document)) == {field}


def test_resources_are_immutable() -> None:
    resource = model()
    with pytest.raises(ValidationError, match="frozen"):
        resource.spec.__setattr__("alias", "other")
    assert resource.alias == "a-model"


def test_a_fresh_model_is_unloaded() -> None:
    status = model().status
    assert (status.load_state, status.conditions, status.error) == (LoadState.UNLOADED, (), None)


def test_the_runtime_is_llama_cpp_unless_it_is_set() -> None:
    assert model().spec.runtime is Runtime.LLAMA_CPP
    external = model(runtime="external", source=None, endpoint={"url": "http://h"})
    assert external.spec.runtime is Runtime.EXTERNAL


@pytest.mark.parametrize(
    "ours", [{"sha256": DIGEST}, {"engine": {}}, {"drainSeconds": 0}, {"replicas": 0}]
)
def test_settings_of_our_engines_are_refused_where_the_engine_is_not_ours(
    ours: dict[str, Any],
) -> None:
    spec = {"runtime": "external", "endpoint": {"url": "http://h"}}
    document = {"metadata": {"name": "a"}, "spec": spec | ours}
    assert faults(document) == {
        "spec": "Value error, sha256, engine, replicas, activation and drainSeconds act on engines of ours:"
        " not with runtime external"
    }


@pytest.mark.parametrize(
    ("url", "root", "host"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000", "127.0.0.1"),
        ("http://127.0.0.1:8000/", "http://127.0.0.1:8000", "127.0.0.1"),
        ("https://h.example/v1", "https://h.example", "h.example"),
        ("https://h.example/v1/", "https://h.example", "h.example"),
        ("https://h.example/api/v1", "https://h.example/api", "h.example"),
        ("https://h.example/api//v1//", "https://h.example/api", "h.example"),
        ("https://h.example/v12", "https://h.example/v12", "h.example"),
        ("https://h.example/api-v1", "https://h.example/api-v1", "h.example"),
        ("https://H.Example:443/v1", "https://H.Example:443", "h.example"),
        ("http://[::1]:8000/v1", "http://[::1]:8000", "::1"),
        ("http://v1", "http://v1", "v1"),
        ("http://v1/v1", "http://v1", "v1"),
    ],
)
def test_an_endpoints_root_and_host(url: str, root: str, host: str) -> None:
    endpoint = ExternalEndpoint(url=url)
    assert (endpoint.root(), endpoint.host()) == (root, host)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h.example",
        "ftp://h.example",
        "http://",
        "http:///v1",
        "http://:80/v1",
        "http://h.example:0x50",
        "http://h.example:65536",
        "http://[::1",
        "http://h.example/?key=1",
        "http://h.example/#part",
        "http://user@h.example",
        "http://h.example/a b",
    ],
)
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(ValidationError, match="url"):
        ExternalEndpoint(url=url)


def test_replicas_and_suspension() -> None:
    assert (model().spec.replicas, model().spec.suspend) == (1, False)
    assert model(replicas=3).spec.desired_replicas == 3
    assert model(replicas=3, suspend=True).spec.desired_replicas == 0
    assert "spec.replicas" in faults(
        {"metadata": {"name": "a"}, "spec": {"source": {"path": "m"}, "replicas": -1}}
    )


def test_the_catalogue_id_names_the_profile_unless_it_is_the_default() -> None:
    assert model(alias="team/x").catalogue_id == "team/x"
    assert model(alias="team/x", profile="long").catalogue_id == "team/x@long"


def test_a_status_may_hold_what_a_newer_release_writes() -> None:
    document = {
        "metadata": {"name": "a"},
        "spec": {"source": {"path": "m"}},
        "status": {"runtime": {"mode": "generate", "slots": 4, "later": 1}, "later": {}},
    }
    read = ServedModel.model_validate(document).status
    assert read.runtime is not None
    assert (read.runtime.mode, read.runtime.slots) == ("generate", 4)
