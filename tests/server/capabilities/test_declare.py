"""Descriptors: what task, mode, modalities and readiness make of the ten capabilities."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumas_crds.vocabulary import EngineMode, Task
from pumas_server.capabilities import Facts, declare
from pumas_server.capabilities.rows import ROW_OF
from pumas_server.contract.descriptors import (
    Available,
    Descriptor,
    Modalities,
    Unavailable,
)
from pumas_server.contract.words import Capability
from support.models import served_model

TEXT = Modalities(input=("text",), output=("text",))
VISION = Modalities(input=("text", "image"), output=("text",))
OMNI = Modalities(input=("text", "image", "audio"), output=("text",))
VECTOR = Modalities(input=("text",), output=("vector",))
VECTOR_VISION = Modalities(input=("text", "image"), output=("vector",))
VECTOR_HEARING = Modalities(input=("text", "audio"), output=("vector",))
HEARING = Modalities(input=("text", "audio"), output=("text",))
JSON = Modalities(input=("text",), output=("json",))
PICTURES = Modalities(input=("text",), output=("image",))
SILENT = Modalities()

GENERATE, EMBED = EngineMode.GENERATE, EngineMode.EMBED
RERANK, DECIDE = EngineMode.RERANK, EngineMode.DECIDE
DRAW = EngineMode.GENERATE_IMAGE

LETTERS = {
    "available": "A",
    "model_task_mismatch": "M",
    "unknown_model_task": "U",
    "runtime_unavailable": "R",
    "unsupported_adapter": "N",
    "unqualified_audio_runtime": "Q",
}


def declared(task: Task | None = None, **facts: Any) -> tuple[Descriptor, ...]:
    spec: dict[str, Any] = {"task": task.value} if task is not None else {}
    return declare(served_model(**spec).spec, Facts(**facts))


def state(descriptor: Descriptor) -> str:
    match descriptor.availability:
        case Available():
            return "available"
        case Unavailable(reason=reason):
            return reason


def states(task: Task | None = None, **facts: Any) -> str:
    """One letter for each capability, in the contract's order."""
    return "".join(LETTERS[state(descriptor)] for descriptor in declared(task, **facts))


def test_models_that_say_the_same_have_the_same_descriptors() -> None:
    """Not equal ones: with a thousand models, making them is most of the time of a listing."""
    facts = {"ready": True, "mode": GENERATE, "context_tokens": 4096}
    one, other = declared(modalities=TEXT, **facts), declared(modalities=TEXT, **facts)
    assert one is other
    assert declared(modalities=TEXT, **facts | {"context_tokens": 8192}) != one
    assert declared(Task.TEXT_RANKING, modalities=TEXT, **facts) != one


# In order: chat, text, embedding, image; the two audio; image to text, multimodal; decision, rerank.
TEXT_ALL = "AAMMQQMMMM"
SEES_ALL = "AAMMQQAMMM"
COLD_ALL = "RRMMQQMMMM"
EMBEDS_ALL = "MMAMQQMMMM"
DECIDES_ALL = "MMMMQQMMAM"
RANKS_ALL = "MMMMQQMMMA"
DRAWS_ALL = "MMMAQQMMMM"
SENSES_ALL = "MMAMQQMAMM"
NOTHING = "MMMMQQMMMM"
UNTOLD = "UUUUQQUUUU"


@pytest.mark.parametrize(
    ("task", "mode", "modalities", "ready", "expected"),
    [
        # No recorded task: the runtime describes the model.
        (None, GENERATE, TEXT, True, TEXT_ALL),
        (None, GENERATE, VISION, True, SEES_ALL),
        (None, GENERATE, OMNI, True, SEES_ALL),
        (None, EMBED, VECTOR, True, EMBEDS_ALL),
        (None, EMBED, VECTOR_VISION, True, SENSES_ALL),
        (None, EMBED, VECTOR_HEARING, True, SENSES_ALL),
        (None, DRAW, PICTURES, True, DRAWS_ALL),
        (Task.TEXT_TO_IMAGE, DRAW, PICTURES, True, DRAWS_ALL),
        (None, RERANK, JSON, True, RANKS_ALL),
        (None, DECIDE, JSON, True, DECIDES_ALL),
        (None, None, TEXT, True, TEXT_ALL),
        (None, None, VISION, True, SEES_ALL),
        (None, None, VECTOR, True, UNTOLD),
        (None, None, JSON, True, UNTOLD),
        # Case 82: nothing tells what the model is for.
        (None, None, SILENT, True, UNTOLD),
        (None, None, SILENT, False, UNTOLD),
        # A recorded task beats what is published.
        (Task.TEXT_GENERATION, None, TEXT, True, TEXT_ALL),
        (Task.TEXT_GENERATION, GENERATE, TEXT, True, TEXT_ALL),
        (Task.TEXT_GENERATION, GENERATE, VISION, True, TEXT_ALL),
        (Task.TEXT2TEXT_GENERATION, None, TEXT, True, TEXT_ALL),
        (Task.CONVERSATIONAL, None, TEXT, True, TEXT_ALL),
        (Task.IMAGE_TEXT_TO_TEXT, GENERATE, VISION, True, SEES_ALL),
        # Without its projector a model that should see does all but that.
        (Task.IMAGE_TEXT_TO_TEXT, GENERATE, TEXT, True, "AAMMQQRMMM"),
        (Task.IMAGE_TO_TEXT, GENERATE, TEXT, True, "MMMMQQRMMM"),
        (Task.IMAGE_TEXT_TO_TEXT, None, SILENT, False, "RRMMQQRMMM"),
        # Sound is no sight.
        (None, GENERATE, HEARING, True, TEXT_ALL),
        (Task.IMAGE_TEXT_TO_TEXT, GENERATE, HEARING, True, "AAMMQQRMMM"),
        (Task.IMAGE_TO_TEXT, GENERATE, VISION, True, "MMMMQQAMMM"),
        (Task.FEATURE_EXTRACTION, None, TEXT, True, EMBEDS_ALL),
        (Task.FEATURE_EXTRACTION, EMBED, VECTOR, True, EMBEDS_ALL),
        (Task.SENTENCE_SIMILARITY, EMBED, VECTOR, True, EMBEDS_ALL),
        # Decision 13: an embedder that takes images embeds them too.
        (Task.FEATURE_EXTRACTION, None, VISION, True, SENSES_ALL),
        (Task.TEXT_RANKING, RERANK, JSON, True, RANKS_ALL),
        (Task.TEXT_RANKING, None, JSON, True, RANKS_ALL),
        (Task.TEXT_TO_IMAGE, None, TEXT, True, DRAWS_ALL),
        (Task.AUTOMATIC_SPEECH_RECOGNITION, None, OMNI, True, NOTHING),
        (Task.TEXT_CLASSIFICATION, None, TEXT, True, NOTHING),
        (Task.FILL_MASK, GENERATE, OMNI, True, NOTHING),
        # Native decision evidence beats even that.
        (Task.TEXT_GENERATION, DECIDE, JSON, True, DECIDES_ALL),
        (Task.TEXT_RANKING, DECIDE, JSON, True, DECIDES_ALL),
        (Task.FILL_MASK, DECIDE, VISION, True, DECIDES_ALL),
        # Semantics come before readiness.
        (Task.FEATURE_EXTRACTION, None, SILENT, False, "MMRMQQMMMM"),
        (Task.TEXT_RANKING, None, SILENT, False, "MMMMQQMMMR"),
        (Task.TEXT_GENERATION, None, SILENT, False, COLD_ALL),
        (Task.TEXT_GENERATION, GENERATE, TEXT, False, COLD_ALL),
        (None, GENERATE, TEXT, False, COLD_ALL),
        (None, EMBED, VECTOR, False, "MMRMQQMMMM"),
        (None, RERANK, JSON, False, "MMMMQQMMMR"),
        (None, DECIDE, JSON, False, "MMMMQQMMRM"),
        (None, DRAW, PICTURES, False, "MMMRQQMMMM"),
        (Task.TEXT_TO_IMAGE, None, SILENT, False, "MMMRQQMMMM"),
        # An empty declaration means that the runtime has not answered.
        (Task.TEXT_GENERATION, GENERATE, SILENT, True, COLD_ALL),
        (None, GENERATE, SILENT, True, COLD_ALL),
        (None, DECIDE, SILENT, True, "MMMMQQMMRM"),
    ],
)
def test_what_is_said_of_the_ten_capabilities(
    task: Task | None,
    mode: EngineMode | None,
    modalities: Modalities,
    ready: bool,
    expected: str,
) -> None:
    assert states(task, mode=mode, modalities=modalities, ready=ready) == expected


#: What a task offers to a runtime that takes everything.
TASKS = {
    Task.TEXT_GENERATION: TEXT_ALL,
    Task.TEXT2TEXT_GENERATION: TEXT_ALL,
    Task.CONVERSATIONAL: TEXT_ALL,
    Task.SUMMARIZATION: TEXT_ALL,
    Task.TRANSLATION: TEXT_ALL,
    Task.IMAGE_TEXT_TO_TEXT: SEES_ALL,
    Task.ANY_TO_ANY: SEES_ALL,
    Task.IMAGE_TO_TEXT: "MMMMQQAMMM",
    Task.FEATURE_EXTRACTION: SENSES_ALL,
    Task.SENTENCE_SIMILARITY: SENSES_ALL,
    Task.TEXT_RANKING: RANKS_ALL,
    Task.TEXT_TO_IMAGE: DRAWS_ALL,
}


@pytest.mark.parametrize("task", list(Task))
def test_every_task_offers_what_its_row_says_and_nothing_else(task: Task) -> None:
    assert states(task, modalities=OMNI, ready=True) == TASKS.get(task, NOTHING)


def test_case_79_the_descriptors_of_a_model_of_text() -> None:
    chat, text, *others = declared(mode=GENERATE, modalities=TEXT, ready=True)
    assert [(d.capability, d.streaming, state(d)) for d in (chat, text)] == [
        ("chat_generation", True, "available"),
        ("text_generation", True, "available"),
    ]
    assert [state(d) for d in others[2:4]] == ["unqualified_audio_runtime"] * 2
    assert not any(d.streaming for d in others)


@pytest.mark.parametrize("mode", EngineMode)
def test_only_text_streams_however_available_the_others_are(mode: EngineMode) -> None:
    streaming = [
        d.capability for d in declared(mode=mode, modalities=OMNI, ready=True) if d.streaming
    ]
    assert streaming == (["chat_generation", "text_generation"] if mode is GENERATE else [])


def test_a_mode_that_is_not_known_is_a_fault_of_ours() -> None:
    with pytest.raises(AssertionError):
        declared(mode="dream")


@pytest.mark.parametrize(
    ("modalities", "takes"),
    [
        (SILENT, [()] * 10),
        (
            TEXT,
            [("text",)] * 4 + [()] * 2 + [("text",)] * 4,
        ),
        (
            Modalities(input=("video", "audio", "image", "text"), output=("text",)),
            [
                ("text", "image", "audio"),
                *[("text",)] * 3,
                *[("audio",)] * 2,
                ("text", "image"),
                *[("text", "image", "audio")] * 2,
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


@pytest.mark.parametrize(
    ("width", "expected"),
    [(None, {}), (0, {}), (1, {"dimensions": (1, 1)}), (384, {"dimensions": (1, 384)})],
)
def test_embeddings_are_bounded_by_the_width(width: int | None, expected: dict[str, Any]) -> None:
    descriptors = declared(mode=EMBED, embedding_width=width)
    for descriptor in descriptors:
        embeds = descriptor.capability in (
            Capability.TEXT_EMBEDDING,
            Capability.MULTIMODAL_EMBEDDING,
        )
        if embeds:
            assert bounds(descriptor) == expected
        else:
            assert "dimensions" not in bounds(descriptor)


def test_decisions_and_reranking_have_no_bounds_of_their_own() -> None:
    descriptors = declared(context_tokens=512, embedding_width=64)
    assert [bounds(d) for d in descriptors[8:]] == [{}, {}]


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
    width=st.one_of(st.none(), st.integers(0, 2**16)),
)
def test_whatever_is_known_the_descriptors_are_sound(
    task: Task | None,
    mode: EngineMode | None,
    takes: tuple[str, ...],
    gives: tuple[str, ...],
    ready: bool,
    context: int | None,
    width: int | None,
) -> None:
    facts: dict[str, Any] = {
        "mode": mode,
        "modalities": Modalities(input=takes, output=gives),
        "ready": ready,
        "context_tokens": context,
        "embedding_width": width,
    }
    descriptors = declared(task, **facts)
    assert declared(task, **facts) == descriptors
    assert [d.capability for d in descriptors] == list(Capability)
    for descriptor in descriptors:
        names = [b.option for b in descriptor.option_bounds]
        assert len(set(names)) == len(names)
        assert all(b.minimum <= b.maximum for b in descriptor.option_bounds)
        assert set(descriptor.input_modalities) <= set(takes)
        told = state(descriptor)
        if told == "available":
            assert ready
            assert takes
            assert ROW_OF[descriptor.capability].adapter
        assert descriptor.streaming == (
            told == "available" and ROW_OF[descriptor.capability].streams
        )
        assert told != "unknown_model_task" or task is None
        assert (told == "unqualified_audio_runtime") == ("audio_" in descriptor.capability)
