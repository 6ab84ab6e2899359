"""What is known of a model that nobody can ask now: its last run's word, else its files'."""

from __future__ import annotations

from typing import Any

import pytest

from pumas_crds.facts import FileFacts
from pumas_crds.served_model import ServedModel
from pumas_crds.vocabulary import EngineMode
from pumas_server.capabilities import Facts
from pumas_server.contract.descriptors import Modalities
from pumas_server.router.catalog import build_catalog
from pumas_server.router.catalog_row import Row
from pumas_server.router.last_facts import last_facts, select_inputs
from pumas_server.router.observations import Observation
from pumas_server.router.source import Endpoint, ModelRecord

EYES = {"projector": {"inputModalities": ["image"]}}
CHAT = {"architecture": "llama"}
EMBEDS = {"architecture": "llama", "pooling": "mean"}
PIPELINE = {"architecture": "p", "format": "onnx", "pipeline": "P", "inputModalities": ["text"]}
SEEING = {"architecture": "b", "format": "onnx", "inputModalities": ["text", "image"]}
RAN = {
    "mode": "generate",
    "inputModalities": ["text", "audio"],
    "outputModalities": ["text"],
    "contextTokens": 512,
    "limits": [{"option": "input_tokens", "minimum": 1, "maximum": 512}],
}


def record(*endpoints: Endpoint, spec: Any = None, **status: Any) -> ModelRecord:
    model = ServedModel.model_validate(
        {
            "metadata": {"name": "m", "uid": "m"},
            "spec": {
                "source": {"path": "/m.gguf"},
                "activation": {"onDemand": True},
                **(spec or {}),
            },
            "status": {"loadState": "unloaded", "specHash": "hash", **status},
        }
    )
    return ModelRecord(model, "hash", endpoints)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, Facts()),
        ({"file": CHAT}, Facts(mode=EngineMode.GENERATE, expected_input=("text",))),
        ({"file": CHAT | EYES},
         Facts(mode=EngineMode.GENERATE, expected_input=("text", "image"))),
        ({"file": EMBEDS | EYES}, Facts(mode=EngineMode.EMBED, expected_input=("text", "image"))),
        ({"file": PIPELINE}, Facts(mode=EngineMode.GENERATE_IMAGE, expected_input=("text",))),
    ],
)  # fmt: skip
def test_before_it_ever_ran_its_files_speak(status: Any, expected: Facts) -> None:
    assert last_facts(record(**status)) == expected


def test_what_it_said_when_it_ran_beats_its_files() -> None:
    facts = last_facts(record(file=CHAT | EYES, runtime=RAN))
    assert facts.modalities == Modalities(input=("text", "audio"), output=("text",))
    assert facts.takes == ("text", "audio")
    assert [limit.option for limit in facts.limits] == ["input_tokens"]
    other = last_facts(record(file=CHAT | EYES, runtime=RAN, specHash="another"))
    assert (other.takes, other.limits) == (("text", "image"), ())


@pytest.mark.parametrize(
    ("file", "inputs"),
    [(None, ()), (CHAT, ("text",)), (CHAT | EYES, ("text", "image")), (SEEING, ("text", "image"))],
)
def test_what_files_promise(file: Any, inputs: tuple[str, ...]) -> None:
    found = FileFacts.model_validate(file) if file is not None else None
    assert select_inputs(found) == inputs


STARTS = Endpoint("pod", "http://pod", "http://supervisor", True)


def row(*endpoints: Endpoint, said: Observation | None = None, **status: Any) -> Row:
    observed = {("m", "pod", "http://pod"): said} if said is not None else {}
    (found,) = build_catalog([record(*endpoints, **status)], observed, 64).rows
    return found


def states(found: Row, *, awake: bool = False) -> dict[str, str]:
    descriptors = found.awake_descriptors if awake else found.descriptors
    told = {d.capability.value: d.availability for d in descriptors}
    return {
        name: getattr(told[name], "reason", "available")
        for name in ("chat_generation", "image_to_text", "multimodal_embedding")
    }


def test_a_seeing_model_at_rest_is_no_model_of_text() -> None:
    asleep = row(file=CHAT | EYES)
    assert asleep.modalities == Modalities(), "its runtime has not answered"
    assert states(asleep) == {
        "chat_generation": "runtime_unavailable",
        "image_to_text": "runtime_unavailable",
        "multimodal_embedding": "model_task_mismatch",
    }
    # So an image wakes it.
    assert states(asleep, awake=True) == states(asleep) | {
        "chat_generation": "available", "image_to_text": "available",
    }  # fmt: skip
    embeds = row(file=EMBEDS | EYES)
    assert states(embeds, awake=True)["multimodal_embedding"] == "available"
    blind = row(file=CHAT)
    assert states(blind, awake=True)["image_to_text"] == "model_task_mismatch"


def test_one_that_starts_has_told_its_mode_and_its_files_the_rest() -> None:
    said = Observation(Facts(mode=EngineMode.GENERATE), "boot", 0)
    assert states(row(STARTS, said=said, file=CHAT | EYES))["image_to_text"] == (
        "runtime_unavailable"
    )


def test_what_an_engine_tells_counts_and_not_what_its_files_promised() -> None:
    text = Modalities(input=("text",), output=("text",))
    facts = Facts(ready=True, mode=EngineMode.GENERATE, modalities=text)
    found = row(STARTS, said=Observation(facts, "boot", 1), file=CHAT | EYES)
    assert states(found)["image_to_text"] == "model_task_mismatch"
