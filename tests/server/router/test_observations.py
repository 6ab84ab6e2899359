"""What endpoints say, as a table: a pod's descriptor and an external server's list."""

from __future__ import annotations

from typing import Any

import pytest

from pumas_crds.facts import Limit, PodDescriptor
from pumas_crds.vocabulary import EngineMode, Task
from pumas_server.capabilities import Facts
from pumas_server.contract.descriptors import Modalities
from pumas_server.router.observations import Observation, observe_external, observe_pod

TEXT = Modalities(input=("text",), output=("text",))


def test_a_ready_pod() -> None:
    said = observe_pod(
        PodDescriptor.model_validate(
            {
                "state": "ready",
                "bootId": "b1",
                "mode": "generate",
                "runtime": {
                    "contextTokens": 512,
                    "slots": 4,
                    "inputModalities": ["text"],
                    "outputModalities": ["text"],
                    "limits": [{"option": "input_tokens", "minimum": 1, "maximum": 9}],
                },
                "addedLater": {"x": 1},
            }
        )
    )
    facts = Facts(
        ready=True,
        mode=EngineMode.GENERATE,
        modalities=TEXT,
        context_tokens=512,
        limits=(Limit(option="input_tokens", minimum=1, maximum=9),),
    )
    assert said == Observation(facts, "b1", 4)


@pytest.mark.parametrize("state", ["starting", "failed", "draining"])
def test_a_pod_that_is_not_ready(state: str) -> None:
    error = {"reason": "EngineFailed", "message": "the engine ended"}
    said = observe_pod(PodDescriptor.model_validate({"state": state, "error": error}))
    assert said == Observation(problem="the engine ended")
    assert not said.facts.ready


def entry(id_: object = "served", **members: object) -> dict[str, object]:
    return {"id": id_, **members}


FINDS: dict[str, tuple[Any, bool]] = {
    "by id": ([entry("other"), entry("served")], True),
    "by alias": ([entry("other"), entry("x", aliases=["served"])], True),
    "by id without a tag": ([entry("other"), entry("served:latest")], True),
    "not by another tag": ([entry("other"), entry("served:7b")], False),
    "not by part": ([entry("other"), entry("served2")], False),
    "the only one of llama.cpp": ([entry("/models/whatever.gguf", owned_by="llamacpp")], True),
    "the only object": ([7, entry("x", owned_by="llamacpp"), "served"], True),
    "the only one of a server that goes by names": ([entry("x", owned_by="library")], False),
    "the only one of nobody": ([entry("x")], False),
    "not one of many": ([entry("a"), entry("b")], False),
    "nothing": ([], False),
    "ids that are no text": ([entry(None), entry(["served"])], False),
}


@pytest.mark.parametrize("name", FINDS)
def test_which_entry_is_the_models(name: str) -> None:
    entries, found = FINDS[name]
    said = observe_external({"data": entries}, "served", Task.TEXT_GENERATION)
    assert said.facts.ready is found
    assert bool(said.problem) is not found


@pytest.mark.parametrize("body", [None, [], "x", {}, {"data": None}, {"data": {}}])
def test_no_list(body: Any) -> None:
    assert observe_external(body, "served", None).problem


@pytest.mark.parametrize(
    ("task", "output"),
    [
        (None, ()),
        (Task.TEXT_GENERATION, ("text",)),
        (Task.FEATURE_EXTRACTION, ("vector",)),
        (Task.TEXT_RANKING, ("json",)),
        (Task.TEXT_CLASSIFICATION, ()),
    ],
)
def test_a_bare_list_leaves_the_word_to_the_recorded_task(
    task: Task | None, output: tuple[str, ...]
) -> None:
    said = observe_external({"data": [entry()]}, "served", task)
    assert said.facts.modalities.output == output
    assert said.facts.modalities.input == (("text",) if output else ())


@pytest.mark.parametrize(
    ("published", "task", "output", "mode"),
    [
        (["text"], None, ("text",), None),
        (["text", "audio"], Task.TEXT_GENERATION, ("text", "audio"), None),
        (["text"], Task.FEATURE_EXTRACTION, ("vector",), None),
        (["text"], Task.TEXT_RANKING, ("json",), None),
        (["decisions"], None, ("json",), EngineMode.DECIDE),
        (["decisions"], Task.TEXT_GENERATION, ("json",), EngineMode.DECIDE),
    ],
)
def test_an_architecture_in_the_contracts_words(
    published: list[str], task: Task | None, output: tuple[str, ...], mode: EngineMode | None
) -> None:
    architecture = {"input_modalities": ["text"], "output_modalities": published}
    said = observe_external({"data": [entry(architecture=architecture)]}, "served", task)
    assert said.facts.modalities == Modalities(input=("text",), output=output)
    assert said.facts.mode is mode


@pytest.mark.parametrize(
    "architecture", [None, 7, {}, {"input_modalities": ["text"]}, {"output_modalities": 7}]
)
def test_half_an_architecture_is_none(architecture: Any) -> None:
    said = observe_external({"data": [entry(architecture=architecture)]}, "served", None)
    assert said.facts.modalities == Modalities()


@pytest.mark.parametrize(
    ("meta", "tokens"),
    [({"n_ctx": 512}, 512), ({"n_ctx": 0}, None), ({"n_ctx": True}, None), ({}, None), (7, None)],
)
def test_the_context(meta: Any, tokens: int | None) -> None:
    said = observe_external({"data": [entry(meta=meta)]}, "served", None)
    assert said.facts.context_tokens == tokens
