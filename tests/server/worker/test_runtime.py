"""Facts from the engine's answers: cut from recorded ones of two builds."""

from __future__ import annotations

from typing import Any

import pytest

from pumas_crds.facts import FileFacts, Limit, ProjectorFacts, RuntimeFacts
from pumas_crds.vocabulary import EngineMode
from pumas_server.worker.runtime import runtime_facts

FILE = FileFacts(architecture="bert", context_tokens=512, embedding_width=384)


def models(inputs: list[str], outputs: list[str], width: int = 640) -> dict[str, Any]:
    architecture = {"input_modalities": inputs, "output_modalities": outputs}
    return {"data": [{"id": "m", "architecture": architecture, "meta": {"n_embd": width}}]}


def props(slots: int, *, context: int = 4096, build: str = "b11549-abc", **senses: bool) -> Any:
    return {
        "default_generation_settings": {"n_ctx": context},
        "total_slots": slots,
        "modalities": {"vision": False, "audio": False, "video": False, **senses},
        "build_info": build,
    }


def slots(*contexts: int) -> list[dict[str, Any]]:
    return [{"id": i, "n_ctx": n, "is_processing": False} for i, n in enumerate(contexts)]


TEXT = models(["text"], ["text"])
#: Builds before b11434 say nothing of modalities in `/v1/models`.
OLD = {"data": [{"id": "m", "meta": {"n_embd": 640, "n_ctx_train": 32768}}]}


def facts(**members: Any) -> RuntimeFacts:
    expected: dict[str, Any] = {
        "build": "b11549-abc",
        "context_tokens": 4096,
        "slots": 4,
        "input_modalities": ("text",),
        "output_modalities": ("text",),
    }
    return RuntimeFacts(**{**expected, **members})


@pytest.mark.parametrize(
    ("mode", "answers", "expected"),
    [
        (EngineMode.GENERATE, (TEXT, props(4), slots(4096, 4096, 4096, 4096)), facts()),
        (
            EngineMode.GENERATE,
            (models(["text", "image", "audio"], ["text"]), props(2), slots(4096, 4096)),
            facts(slots=2, input_modalities=("text", "image", "audio")),
        ),
        (
            EngineMode.GENERATE,
            (OLD, props(2, vision=True, audio=True), slots(4096, 4096)),
            facts(slots=2, input_modalities=("text", "image", "audio")),
        ),
        (
            EngineMode.EMBED,
            (models(["text"], ["text"], 384), props(1, context=512), slots(512)),
            facts(slots=1, context_tokens=512, output_modalities=("vector",), embedding_width=384),
        ),
        (
            EngineMode.RERANK,
            (models(["text"], ["text"], 384), props(1, context=512), slots(512)),
            facts(slots=1, context_tokens=512, output_modalities=("json",)),
        ),
        (
            EngineMode.DECIDE,
            (models(["text"], ["decisions"], 64), props(1, context=1024), slots(1024)),
            facts(slots=1, context_tokens=1024, output_modalities=("json",)),
        ),
    ],
    ids=["chat", "multimodal", "multimodal-old", "embed", "rerank", "decide"],
)
def test_each_mode(mode: EngineMode, answers: tuple[Any, Any, Any], expected: object) -> None:
    assert runtime_facts(*answers, FILE, mode) == expected


def test_the_smallest_slot_is_what_can_be_promised() -> None:
    told = runtime_facts(TEXT, props(2), slots(2048, 1024), FILE, EngineMode.GENERATE)
    assert told.context_tokens == 1024


def test_without_slots_the_defaults_speak() -> None:
    told = runtime_facts(TEXT, props(4, context=2048), None, FILE, EngineMode.GENERATE)
    assert (told.context_tokens, told.slots) == (2048, 4)


@pytest.mark.parametrize(
    ("says", "program", "build"),
    [
        ("b11549-abc", "xllamacpp 2026.1", "b11549-abc"),
        ("b0-unknown", "xllamacpp 2026.1", "xllamacpp 2026.1"),
        ("b0-unknown", "", "b0-unknown"),
        ("x" * 500, "", "x" * 128),
    ],
)
def test_build(says: str, program: str, build: str) -> None:
    told = runtime_facts(TEXT, props(1, build=says), [], FILE, EngineMode.GENERATE, program)
    assert told.build == build


@pytest.mark.parametrize("answer", [None, [], {}, "text", 7, {"data": [], "modalities": 3}])
def test_answers_of_any_shape_are_survived(answer: object) -> None:
    told = runtime_facts(answer, answer, answer, FILE, EngineMode.EMBED)
    assert told.embedding_width == 384
    assert (told.slots, told.context_tokens, told.input_modalities) == (0, 0, ("text",))


@pytest.mark.parametrize(
    "caps, mode, tools",
    [
        ({"supports_tools": True, "supports_tool_calls": True}, EngineMode.GENERATE, True),
        ({"supports_tools": True, "supports_tool_calls": False}, EngineMode.GENERATE, False),
        ({"supports_tools": True}, EngineMode.GENERATE, False),
        ({"supports_tools": "true", "supports_tool_calls": "true"}, EngineMode.GENERATE, False),
        ({"supports_tools": True, "supports_tool_calls": True}, EngineMode.EMBED, False),
        (None, EngineMode.GENERATE, False),
    ],
)
def test_tools_are_what_the_chat_template_can_render(
    caps: object, mode: EngineMode, tools: bool
) -> None:
    told = runtime_facts(TEXT, {"chat_template_caps": caps}, [], FILE, mode)
    assert told.tool_calls is (tools or None)


LIMIT = {"option": "input_tokens", "minimum": 1, "maximum": 512}


@pytest.mark.parametrize(
    ("told", "limits"),
    [
        ([LIMIT], (Limit(**LIMIT),)),
        (
            [LIMIT, {**LIMIT, "option": "width"}],
            (Limit(**LIMIT), Limit(**LIMIT | {"option": "width"})),
        ),
        ([], None),
        (None, None),
        ("limits", None),
        ([None, 7, {}, {"option": "x"}], None),
        ([{**LIMIT, "option": 7}], None),
        ([{**LIMIT, "maximum": 1.5}], None),
        ([{**LIMIT, "maximum": True}], None),
        ([{**LIMIT, "minimum": "1"}], None),
        ([{**LIMIT, "option": "x" * 500}], (Limit(**LIMIT | {"option": "x" * 128}),)),
        ([LIMIT] * 40, (Limit(**LIMIT),) * 16),
    ],
)
def test_limits_are_what_is_well_formed_of_them(
    told: object, limits: tuple[Limit, ...] | None
) -> None:
    found = runtime_facts(TEXT, {"limits": told}, [], FILE, EngineMode.EMBED)
    assert found.limits == limits


@pytest.mark.parametrize(
    ("told", "device"), [("cuda", "cuda"), (None, ""), (7, ""), ("x" * 500, "x" * 128)]
)
def test_the_device_is_the_engines_own_account(told: object, device: str) -> None:
    found = runtime_facts(TEXT, {"device": told}, [], FILE, EngineMode.EMBED)
    assert found.device == device


PICTURED = FILE.model_copy(update={"projector": ProjectorFacts(input_modalities=("image",))})
ONNX = FILE.model_copy(update={"input_modalities": ("text", "image")})


@pytest.mark.parametrize(
    ("model", "told", "file", "inputs"),
    [
        # The engine's word beats the files'.
        (TEXT, props(1, vision=True), PICTURED, ("text",)),
        (OLD, props(1, vision=True), FILE, ("text", "image")),
        (OLD, props(1), PICTURED, ("text",)),
        # An engine that answers neither way leaves it to them.
        (OLD, None, PICTURED, ("text", "image")),
        (OLD, None, FILE, ("text",)),
        (OLD, props(1), ONNX, ("text", "image")),
        (None, None, ONNX, ("text", "image")),
    ],
)
def test_what_it_takes(model: Any, told: Any, file: FileFacts, inputs: tuple[str, ...]) -> None:
    found = runtime_facts(model, told, [], file, EngineMode.GENERATE)
    assert found.input_modalities == inputs


def test_an_image_engine_gives_images() -> None:
    found = runtime_facts(OLD, {}, [], FILE, EngineMode.GENERATE_IMAGE)
    assert (found.output_modalities, found.embedding_width) == (("image",), 0)
