"""The model object, as tables: what a record says, and nothing that a router saw."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pumas_crds.vocabulary import PERMANENT_REASONS, LoadState, Reason
from pumas_server.router.lmsp.model_object import build_model_object, with_state
from pumas_server.router.source import Endpoint, ModelRecord
from support.catalogue import DIGEST, FAILED, catalogued, pod
from support.models import served_model
from support.routers import external

PAGES = "/lmsp/v1/problems/"


def build(record: ModelRecord) -> dict[str, Any]:
    return dict(build_model_object(record, PAGES))


def test_the_whole_object() -> None:
    title = {"displayName": "Qwen3 14B", "aliases": ["qwen", "q3"], "family": "qwen3-dense"}
    record = catalogued(
        "org/qwen3:14b", tools=True, catalogue=title, activation={"onDemand": True}, profile="gpu"
    )
    assert build(record) == {
        "id": "org/qwen3:14b@gpu",
        "object": "model",
        "display_name": "Qwen3 14B",
        "aliases": ["qwen", "q3"],
        "owned_by": "local",
        "family": "qwen3-dense",
        "revision": DIGEST,
        "status": "installed",
        "capabilities": {
            "chat": True,
            "completion": True,
            "embeddings": False,
            "tools": True,
            "vision": False,
            "structured_output": True,
            "streaming": True,
        },
        "input_modalities": ["text"],
        "output_modalities": ["text"],
        "context_window": 4096,
        "max_output_tokens": 4096,
        "runtime": {"backend": "llama.cpp", "device": "gpu 24/36", "load_on_demand": True},
    }


def test_what_is_unknown_is_empty() -> None:
    made = build(ModelRecord(served_model("new"), "", ()))
    unknown = ("family", "revision", "context_window", "max_output_tokens")
    assert [made[name] for name in unknown] == ["", "", 0, 0]
    assert made["display_name"] == "new"
    assert made["aliases"] == []
    assert made["runtime"] == {"backend": "llama.cpp", "device": "", "load_on_demand": False}
    assert not any(made["capabilities"].values())
    assert "error" not in made


def test_the_file_tells_what_the_team_does_not() -> None:
    made = build(catalogued("a", catalogue={"displayName": "", "family": ""}))
    assert (made["display_name"], made["family"]) == ("Of the file", "qwen3")


def test_the_digest_that_is_demanded_comes_first() -> None:
    assert build(catalogued("a", sha256="1" * 64))["revision"] == "sha256:" + "1" * 64


@pytest.mark.parametrize(
    ("load_state", "ready", "status"),
    [
        ("unloaded", False, "installed"),
        ("requested", False, "loading"),
        ("loading", False, "loading"),
        ("loaded", True, "ready"),
        ("loaded", False, "loading"),
        ("unloading", True, "unloading"),
        ("failed", False, "error"),
    ],
)
def test_the_status_is_that_of_the_load(load_state: str, ready: bool, status: str) -> None:
    assert build(catalogued("a", load_state, endpoints=(pod(ready=ready),)))["status"] == status


def test_one_ready_address_of_several_will_do() -> None:
    pods = (pod(ready=False), Endpoint("q", "http://q", "http://q", ready=True))
    assert build(catalogued("a", "loaded", endpoints=pods))["status"] == "ready"
    assert build(catalogued("a", "loaded"))["status"] == "loading"


def test_a_cause_that_passed_is_no_error() -> None:
    made = build(catalogued("a", "unloaded", status={"error": FAILED}))
    assert made["status"] == "installed"
    assert "error" not in made


@pytest.mark.parametrize(
    ("load_state", "status"),
    [("unloaded", "installed"), ("failed", "installed"), ("unloading", "unloading")],
)
def test_a_suspended_model_is_installed_once_its_pods_are_gone(
    load_state: str, status: str
) -> None:
    made = build(catalogued("a", load_state, suspend=True, status={"error": FAILED}))
    assert made["status"] == status
    assert "error" not in made


@pytest.mark.parametrize(
    ("told", "suspend", "status"),
    [
        ({}, False, "ready"),
        ({"loadState": "unloaded"}, False, "ready"),
        ({"error": {"reason": "EndpointNotAllowed"}}, False, "error"),
        ({}, True, "installed"),
    ],
    ids=["accepted", "state is of no matter", "refused", "suspended"],
)
def test_a_server_that_is_not_ours_is_ready_when_it_is_accepted(
    told: dict[str, Any], suspend: bool, status: str
) -> None:
    record = external("http://x", "far", **told)
    spec = record.model.spec.model_copy(update={"suspend": suspend})
    model = record.model.model_copy(update={"spec": spec})
    made = build(replace(record, model=model, endpoints=()))
    assert made["status"] == status
    assert ("error" in made) is (status == "error")
    assert made["runtime"] == {"backend": "external", "device": "", "load_on_demand": False}


def flags(record: ModelRecord) -> set[str]:
    return {name for name, set_ in build(record)["capabilities"].items() if set_}


WRITES = {"chat", "completion", "streaming"}


@pytest.mark.parametrize(
    ("mode", "spec", "has"),
    [
        ("generate", {}, WRITES | {"structured_output"}),
        ("generate", {"task": "text-generation"}, WRITES | {"structured_output"}),
        ("embed", {}, {"embeddings"}),
        ("embed", {"task": "sentence-similarity"}, {"embeddings"}),
        ("rerank", {}, set()),
        ("decide", {}, set()),
        ("generate", {"task": "text-to-image"}, {"structured_output"}),
    ],
)
def test_capabilities_of_an_engine(mode: str, spec: dict[str, Any], has: set[str]) -> None:
    assert flags(catalogued("a", mode=mode, **spec)) == has


def test_the_length_of_answers_is_that_of_the_context_where_text_is_written() -> None:
    made = build(catalogued("a", mode="embed"))
    assert (made["context_window"], made["max_output_tokens"]) == (4096, 0)


def test_tools_are_for_chats() -> None:
    assert "tools" in flags(catalogued("a", tools=True))
    # The template of an embedder may know tools all the same.
    assert "tools" not in flags(catalogued("a", tools=True, mode="embed"))


def test_a_model_that_sees_has_vision_and_still_text_alone() -> None:
    runtime = {"mode": "generate", "inputModalities": ["text", "image"]}
    record = catalogued("a", status={"runtime": runtime})
    assert "vision" in flags(record)
    assert build(record)["input_modalities"] == ["text"]


def test_a_model_that_never_ran_has_what_its_file_is_for() -> None:
    record = catalogued("a", status={"runtime": None})
    assert flags(record) == WRITES | {"structured_output"}
    file = {"architecture": "bert", "causal": False, "pooling": "cls"}
    assert flags(catalogued("a", status={"runtime": None, "file": file})) == {"embeddings"}


def test_what_another_spec_ran_as_is_not_told() -> None:
    record = replace(catalogued("a", tools=True), spec_hash="newer")
    made = build(record)
    assert (made["runtime"]["device"], made["context_window"]) == ("", 0)
    assert "tools" not in flags(record)


@pytest.mark.parametrize(
    ("task", "has"),
    [("text-generation", WRITES), ("feature-extraction", {"embeddings"}), (None, set())],
)
def test_a_server_that_is_not_ours_does_its_recorded_task(task: str | None, has: set[str]) -> None:
    assert flags(external("http://x", "far", task)) == has


@pytest.mark.parametrize("reason", Reason)
def test_an_error_says_whether_its_cause_may_pass(reason: Reason) -> None:
    fault = {"reason": reason, "message": "It is broken."}
    error = build(catalogued("a", "failed", status={"error": fault}))["error"]
    assert error == {
        "type": PAGES + "model_load_failed",
        "title": "Model failed to load",
        "status": 500 if reason in PERMANENT_REASONS else 503,
        "detail": "It is broken.",
        "code": "model_load_failed",
    }


def test_an_error_is_there_when_nobody_said_which() -> None:
    error = build(catalogued("a", "failed"))["error"]
    assert (error["status"], error["detail"]) == (503, "The model could not be loaded.")


@pytest.mark.parametrize(
    ("state", "status"),
    [
        (LoadState.UNLOADED, "installed"),
        (LoadState.REQUESTED, "loading"),
        (LoadState.LOADING, "loading"),
        (LoadState.LOADED, "ready"),
        (LoadState.UNLOADING, "unloading"),
        (LoadState.FAILED, "error"),
    ],
)
def test_a_transition_changes_the_status_and_leaves_the_object_alone(
    state: LoadState, status: str
) -> None:
    before = build_model_object(catalogued("a", "failed", status={"error": FAILED}), PAGES)
    kept = before.copy()
    after = with_state(before, state, PAGES)
    assert before == kept
    assert after["status"] == status
    assert ("error" in after) is (status == "error")
    same = before.keys() - {"status", "error"}
    assert {name: dict(after)[name] for name in same} == {name: dict(before)[name] for name in same}


def test_a_failure_keeps_its_diagnosis_and_is_never_without_one() -> None:
    failed = build_model_object(catalogued("a", "failed", status={"error": FAILED}), PAGES)
    assert with_state(failed, LoadState.FAILED, PAGES) == failed
    installed = build_model_object(catalogued("a"), PAGES)
    assert with_state(installed, LoadState.FAILED, PAGES)["error"]["code"] == "model_load_failed"
