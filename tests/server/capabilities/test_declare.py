"""Descriptors: what task, mode, modalities and readiness make of the ten capabilities."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumas_crds.vocabulary import EngineMode, Task
from pumas_server.capabilities import Facts, declare
from pumas_server.capabilities.declare import TASK_CAPABILITIES, _offered
from pumas_server.contract.descriptors import (
    Available,
    Descriptor,
    Modalities,
    Unavailable,
    UnavailableReason,
)
from pumas_server.contract.request import Capability
from support.models import served_model

TEXT = Modalities(input=("text",), output=("text",))
VISION = Modalities(input=("text", "image"), output=("text",))
OMNI = Modalities(input=("text", "image", "audio"), output=("text",))
VECTOR = Modalities(input=("text",), output=("vector",))
JSON = Modalities(input=("text",), output=("json",))
SILENT = Modalities()

GENERATE, EMBED = EngineMode.GENERATE, EngineMode.EMBED
RERANK, DECIDE = EngineMode.RERANK, EngineMode.DECIDE

AVAILABLE = "available"
MISMATCH = "model_task_mismatch"
UNKNOWN = "unknown_model_task"
RUNTIME = "runtime_unavailable"
NO_ADAPTER = "unsupported_adapter"
NO_AUDIO = "unqualified_audio_runtime"


def declared(task: Task | None = None, **facts: Any) -> tuple[Descriptor, ...]:
    spec: dict[str, Any] = {"task": task.value} if task is not None else {}
    return declare(served_model(**spec).spec, Facts(**facts))


def state(descriptor: Descriptor) -> str:
    match descriptor.availability:
        case Available():
            return AVAILABLE
        case Unavailable(reason=reason):
            return reason


def text_states(task: Task | None = None, **facts: Any) -> tuple[str, str]:
    """What is said of chat and of text generation."""
    chat, text, *_ = declared(task, **facts)
    return state(chat), state(text)


BOTH = (AVAILABLE, AVAILABLE)
NEITHER = (MISMATCH, MISMATCH)


# (task, mode, modalities, ready) -> chat, text.
@pytest.mark.parametrize(
    ("task", "mode", "modalities", "ready", "expected"),
    [
        # No recorded task: the runtime describes the model.
        (None, GENERATE, TEXT, True, BOTH),
        (None, GENERATE, VISION, True, BOTH),
        (None, EMBED, VECTOR, True, NEITHER),
        (None, RERANK, JSON, True, NEITHER),
        (None, DECIDE, JSON, True, NEITHER),
        (None, None, TEXT, True, BOTH),
        (None, None, OMNI, True, BOTH),
        (None, None, Modalities(input=("text",), output=("decisions",)), True, NEITHER),
        (None, None, VECTOR, True, (UNKNOWN, UNKNOWN)),
        (None, None, SILENT, True, (UNKNOWN, UNKNOWN)),
        (None, None, SILENT, False, (UNKNOWN, UNKNOWN)),
        # A recorded task beats what is published.
        (Task.TEXT_GENERATION, None, TEXT, True, BOTH),
        (Task.TEXT_GENERATION, GENERATE, TEXT, True, BOTH),
        (Task.TEXT2TEXT_GENERATION, None, TEXT, True, BOTH),
        (Task.CONVERSATIONAL, None, TEXT, True, BOTH),
        (Task.IMAGE_TEXT_TO_TEXT, GENERATE, VISION, True, BOTH),
        (Task.IMAGE_TEXT_TO_TEXT, GENERATE, TEXT, True, BOTH),
        (Task.IMAGE_TO_TEXT, GENERATE, VISION, True, NEITHER),
        (Task.FEATURE_EXTRACTION, None, TEXT, True, NEITHER),
        (Task.FEATURE_EXTRACTION, EMBED, VECTOR, True, NEITHER),
        (Task.TEXT_RANKING, RERANK, JSON, True, NEITHER),
        (Task.TEXT_CLASSIFICATION, None, TEXT, True, NEITHER),
        (Task.TEXT_TO_IMAGE, None, TEXT, True, NEITHER),
        # Native decision evidence beats even that.
        (Task.TEXT_GENERATION, DECIDE, JSON, True, NEITHER),
        (Task.TEXT_GENERATION, None, Modalities(input=("text",), output=("decisions",)), True,
         NEITHER),
        # Semantics come before readiness.
        (Task.FEATURE_EXTRACTION, None, SILENT, False, NEITHER),
        (Task.TEXT_GENERATION, None, SILENT, False, (RUNTIME, RUNTIME)),
        (Task.TEXT_GENERATION, GENERATE, TEXT, False, (RUNTIME, RUNTIME)),
        (None, GENERATE, TEXT, False, (RUNTIME, RUNTIME)),
        # An empty declaration means that the runtime has not answered.
        (Task.TEXT_GENERATION, GENERATE, SILENT, True, (RUNTIME, RUNTIME)),
        (None, GENERATE, SILENT, True, (RUNTIME, RUNTIME)),
    ],
)  # fmt: skip
def test_chat_and_text_generation(
    task: Task | None,
    mode: EngineMode | None,
    modalities: Modalities,
    ready: bool,
    expected: tuple[str, str],
) -> None:
    assert text_states(task, mode=mode, modalities=modalities, ready=ready) == expected


@pytest.mark.parametrize("task", list(Task))
def test_every_task_offers_what_its_row_says_and_nothing_else(task: Task) -> None:
    generates = Capability.CHAT_GENERATION in TASK_CAPABILITIES.get(task, frozenset())
    assert text_states(task, modalities=OMNI, ready=True) == (BOTH if generates else NEITHER)


def test_the_tasks_that_generate_text() -> None:
    generating = {t for t, c in TASK_CAPABILITIES.items() if Capability.TEXT_GENERATION in c}
    assert generating == {
        Task.TEXT_GENERATION,
        Task.TEXT2TEXT_GENERATION,
        Task.CONVERSATIONAL,
        Task.SUMMARIZATION,
        Task.TRANSLATION,
        Task.IMAGE_TEXT_TO_TEXT,
        Task.ANY_TO_ANY,
    }


LATER = (NO_ADAPTER, NO_ADAPTER, NO_AUDIO, NO_AUDIO, NO_ADAPTER, NO_ADAPTER, NO_ADAPTER, NO_ADAPTER)


@pytest.mark.parametrize("task", [None, Task.TEXT_GENERATION, Task.TEXT_RANKING])
@pytest.mark.parametrize("mode", [None, *EngineMode])
@pytest.mark.parametrize("modalities", [SILENT, TEXT, OMNI, VECTOR, JSON])
@pytest.mark.parametrize("ready", [True, False])
def test_all_ten_are_listed_in_order_and_eight_have_no_adapter_yet(
    task: Task | None, mode: EngineMode | None, modalities: Modalities, ready: bool
) -> None:
    descriptors = declared(task, mode=mode, modalities=modalities, ready=ready)
    assert [d.capability for d in descriptors] == list(Capability)
    assert tuple(state(d) for d in descriptors[2:]) == LATER
    for d in descriptors:
        assert d.streaming == (state(d) == AVAILABLE)


def _offer(task: Task | None, **facts: Any) -> set[Capability]:
    offered = _offered(task, Facts(**facts))
    assert offered is not None
    return set(offered)


# What adapters of later releases will find; availability cannot show it yet.
@pytest.mark.parametrize(
    ("task", "mode", "modalities", "offered"),
    [
        (None, GENERATE, VISION, {"chat_generation", "text_generation", "image_to_text"}),
        (None, None, VISION, {"chat_generation", "text_generation", "image_to_text"}),
        (None, GENERATE, TEXT, {"chat_generation", "text_generation"}),
        (None, EMBED, VECTOR, {"text_embedding"}),
        (
            None,
            EMBED,
            Modalities(input=("text", "image"), output=("vector",)),
            {"text_embedding", "multimodal_embedding"},
        ),
        (None, RERANK, JSON, {"rerank"}),
        (None, DECIDE, JSON, {"decision"}),
        (Task.IMAGE_TO_TEXT, None, VISION, {"image_to_text"}),
        (Task.FEATURE_EXTRACTION, None, TEXT, {"text_embedding"}),
        (Task.FEATURE_EXTRACTION, None, VISION, {"text_embedding", "multimodal_embedding"}),
        (Task.TEXT_RANKING, None, TEXT, {"rerank"}),
        (Task.TEXT_TO_IMAGE, None, VISION, {"image_generation"}),
        (Task.FILL_MASK, GENERATE, OMNI, set()),
    ],
)
def test_what_a_model_means_to_do(
    task: Task | None, mode: EngineMode | None, modalities: Modalities, offered: set[str]
) -> None:
    assert _offer(task, mode=mode, modalities=modalities) == offered


@pytest.mark.parametrize(
    ("modalities", "takes"),
    [
        (SILENT, [(), (), (), (), (), (), (), (), (), ()]),
        (
            TEXT,
            [("text",), ("text",), ("text",), ("text",), (), (), ("text",), ("text",), ("text",), ("text",)],
        ),
        (
            Modalities(input=("video", "audio", "image", "text"), output=("text",)),
            [
                ("text", "image", "audio"),
                ("text",),
                ("text",),
                ("text",),
                ("audio",),
                ("audio",),
                ("text", "image"),
                ("text", "image", "audio"),
                ("text", "image", "audio"),
                ("text",),
            ],
        ),
    ],
)  # fmt: skip
def test_input_modalities_are_what_protocol_and_model_share(
    modalities: Modalities, takes: list[tuple[str, ...]]
) -> None:
    descriptors = declared(None, mode=GENERATE, modalities=modalities)
    assert [d.input_modalities for d in descriptors] == takes


def test_output_modalities() -> None:
    assert [d.output_modalities for d in declared()] == [
        ("text",), ("text",), ("vector",), ("image",), ("text",), ("json",), ("text",), ("vector",),
        ("json",), ("json",),
    ]  # fmt: skip


def bounds(descriptor: Descriptor) -> dict[str, tuple[float, float]]:
    return {b.option: (b.minimum, b.maximum) for b in descriptor.option_bounds}


@pytest.mark.parametrize(
    ("context", "maximum"), [(None, 4294967295), (0, 4294967295), (1, 1), (4096, 4096)]
)
def test_text_is_bounded_by_the_served_context(context: int | None, maximum: int) -> None:
    descriptors = declared(context_tokens=context)
    expected = {"max_tokens": (1, maximum), "temperature": (0, 2), "top_p": (0, 1)}
    for index in (0, 1, 6):
        assert bounds(descriptors[index]) == expected


def test_transcription_advertises_its_one_length() -> None:
    descriptors = declared()
    assert bounds(descriptors[4]) == {"max_output_tokens": (512, 512)}
    assert [
        d.option_bounds for d in descriptors if d.capability is Capability.AUDIO_CLASSIFICATION
    ] == [()]


_modalities = st.lists(
    st.sampled_from(["text", "image", "audio", "video", "json", "vector", "decisions", "odd"]),
    max_size=4,
).map(tuple)


@settings(deadline=None, max_examples=60)
@given(
    task=st.one_of(st.none(), st.sampled_from(Task)),
    mode=st.one_of(st.none(), st.sampled_from(EngineMode)),
    takes=_modalities,
    gives=_modalities,
    ready=st.booleans(),
    context=st.one_of(st.none(), st.integers(0, 2**31)),
)
def test_whatever_is_known_the_descriptors_are_sound(
    task: Task | None,
    mode: EngineMode | None,
    takes: tuple[str, ...],
    gives: tuple[str, ...],
    ready: bool,
    context: int | None,
) -> None:
    facts: dict[str, Any] = {
        "mode": mode,
        "modalities": Modalities(input=takes, output=gives),
        "ready": ready,
        "context_tokens": context,
    }
    descriptors = declared(task, **facts)
    assert declared(task, **facts) == descriptors
    assert [d.capability for d in descriptors] == list(Capability)
    for descriptor in descriptors:
        names = [b.option for b in descriptor.option_bounds]
        assert len(set(names)) == len(names)
        assert all(b.minimum <= b.maximum for b in descriptor.option_bounds)
        assert set(descriptor.input_modalities) <= set(takes)
        if state(descriptor) == AVAILABLE:
            assert ready
            assert takes
        assert descriptor.streaming == (state(descriptor) == AVAILABLE)
        assert state(descriptor) != UnavailableReason.UNKNOWN_MODEL_TASK or task is None
