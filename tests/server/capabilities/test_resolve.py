"""Which capability a request is: every rule as a table, and that there always is one answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumas_crds.vocabulary import EngineMode, Task
from pumas_server.capabilities import Facts, declare, resolve
from pumas_server.contract.descriptors import (
    Available,
    Descriptor,
    Modalities,
    OptionBound,
    Unavailable,
    UnavailableReason,
)
from pumas_server.contract.errors import Code, ContractError
from pumas_server.contract.registry import parse_operation
from pumas_server.contract.request import Capability
from support.documents import documents, operation, raw
from support.models import served_model

Descriptors = tuple[Descriptor, ...]

TEXT = Modalities(input=("text",), output=("text",))
INVALID, AMBIGUOUS = Code.INVALID_REQUEST, Code.AMBIGUOUS_OPERATION
MODALITY, UNAVAILABLE = Code.UNSUPPORTED_MODALITY, Code.CAPABILITY_UNAVAILABLE


def model(task: Task | None = None, **facts: Any) -> Descriptors:
    spec: dict[str, Any] = {"task": task.value} if task is not None else {}
    return declare(served_model(**spec).spec, Facts(**facts))


LLM = model(mode=EngineMode.GENERATE, modalities=TEXT, ready=True, context_tokens=4096)
COLD = model(Task.TEXT_GENERATION)
UNTOLD = model()
EMB = model(
    mode=EngineMode.EMBED, modalities=Modalities(input=("text",), output=("vector",)), ready=True
)
RR = model(
    mode=EngineMode.RERANK, modalities=Modalities(input=("text",), output=("json",)), ready=True
)


def without(descriptors: Descriptors, capability: Capability) -> Descriptors:
    """As if that capability were not ready."""
    gone = Unavailable(reason=UnavailableReason.RUNTIME_UNAVAILABLE)
    return tuple(
        d.model_copy(update={"availability": gone}) if d.capability is capability else d
        for d in descriptors
    )


CHAT_ONLY = without(LLM, Capability.TEXT_GENERATION)

MESSAGES = {"kind": "messages", "messages": [{"role": "user", "content": "hi"}]}
SEEN = {
    "kind": "messages",
    "messages": [
        {"role": "user", "content": [{"kind": "text", "text": "what?"}, {"kind": "image"}]},
    ],
}
HEARD = {"kind": "messages", "messages": [{"role": "user", "content": [{"kind": "audio"}]}]}
A_TEXT = {"kind": "text", "text": "Hello"}
TEXT_OPTIONS = {"kind": "text_generation"}


def outcome(descriptors: Descriptors, **changes: Any) -> tuple[Code | Capability, str]:
    """The resolved capability, or the code of the refusal and its words."""
    changes = {"capability": ..., "options": ..., **changes}
    try:
        return resolve(operation(**changes), descriptors).capability, ""
    except ContractError as error:
        return error.code, error.message.removeprefix("request does not match the contract: ")


@pytest.mark.parametrize(
    ("descriptors", "changes", "expected"),
    [
        (LLM, {"input": MESSAGES}, "chat_generation"),
        (LLM, {"input": MESSAGES, "stream": True}, "chat_generation"),
        (LLM, {"input": MESSAGES, "options": TEXT_OPTIONS}, "chat_generation"),
        (LLM, {"input": MESSAGES, "capability": "chat_generation"}, "chat_generation"),
        (LLM, {"input": MESSAGES, "semantic_task": "chat_generation"}, "chat_generation"),
        (LLM, {"input": A_TEXT, "capability": "text_generation"}, "text_generation"),
        (LLM, {"input": A_TEXT, "semantic_task": "text_generation"}, "text_generation"),
        (LLM, {"input": A_TEXT, "capability": "chat_generation"}, "chat_generation"),
        (LLM, {"input": A_TEXT, "semantic_task": "chat_generation"}, "chat_generation"),
        (
            LLM,
            {
                "input": A_TEXT,
                "capability": "text_generation",
                "semantic_task": "text_generation",
                "options": TEXT_OPTIONS,
                "stream": True,
            },
            "text_generation",
        ),
        # Only one of two is available: it is the one.
        (CHAT_ONLY, {"input": A_TEXT}, "chat_generation"),
        (without(LLM, Capability.CHAT_GENERATION), {"input": A_TEXT}, "text_generation"),
    ],
)
def test_what_resolves(descriptors: Descriptors, changes: dict[str, Any], expected: str) -> None:
    assert outcome(descriptors, **changes) == (expected, "")


@pytest.mark.parametrize(
    ("descriptors", "changes", "code", "words"),
    [
        # Case 21: ambiguous whatever options are present.
        (LLM, {"input": A_TEXT}, AMBIGUOUS,
         "several capabilities carry out this request; name one as `capability`:"
         " chat_generation, text_generation"),
        (LLM, {"input": A_TEXT, "options": TEXT_OPTIONS}, AMBIGUOUS, "name one as `capability`"),
        (LLM, {"input": A_TEXT, "stream": True}, AMBIGUOUS, "name one as `capability`"),
        # A named capability has to agree with the rest of the request (cases 28, 29, 34).
        (LLM, {"input": MESSAGES, "capability": "text_generation"}, INVALID,
         "capability text_generation does not take messages; it takes text"),
        (LLM, {"input": SEEN, "capability": "text_generation"}, INVALID,
         "capability text_generation does not take messages with media parts; it takes text"),
        (LLM, {"input": {"kind": "rerank"}, "capability": "chat_generation"}, INVALID,
         "capability chat_generation does not take rerank; it takes messages_text"),
        (LLM, {"input": MESSAGES, "capability": "rerank", "output": "relevance_scores"}, INVALID,
         "capability rerank does not take messages; it takes rerank"),
        (LLM, {"input": MESSAGES, "capability": "chat_generation", "output": "png_base64"}, INVALID,
         "capability chat_generation does not give png_base64; it gives text"),
        (LLM, {"input": A_TEXT, "capability": "text_generation", "output": "pcm_s16le"}, INVALID,
         "capability text_generation does not give pcm_s16le; it gives text"),
        (LLM, {"input": A_TEXT, "capability": "text_generation",
               "semantic_task": "chat_generation"}, INVALID,
         "the semantic_task of capability text_generation is text_generation"),
        (LLM, {"input": MESSAGES, "capability": "chat_generation",
               "options": {"kind": "embeddings"}}, INVALID,
         "`options` of capability chat_generation are of kind text_generation"),
        (EMB, {"input": A_TEXT, "capability": "text_embedding", "output": "embeddings_float32",
               "options": TEXT_OPTIONS}, INVALID,
         "`options` of capability text_embedding are of kind embeddings"),
        (EMB, {"input": A_TEXT, "capability": "text_embedding", "output": "embeddings_float32",
               "stream": True}, INVALID,
         "`stream` is for text generation; capability text_embedding does not stream"),
        # It has to even where it could not be carried out.
        (COLD, {"input": MESSAGES, "capability": "chat_generation", "output": "labels"}, INVALID,
         "does not give labels"),
        # The kind of the options never chooses; a wrong one is told of the resolved capability.
        (LLM, {"input": MESSAGES, "options": {"kind": "embeddings"}}, INVALID,
         "`options` of capability chat_generation are of kind text_generation"),
        (CHAT_ONLY, {"input": A_TEXT, "options": {"kind": "rerank"}}, INVALID,
         "`options` of capability chat_generation are of kind text_generation"),
        (LLM, {"input": A_TEXT, "options": {"kind": "embeddings"}}, AMBIGUOUS, "name one"),
        # Without a name a request that no capability means is unsupported (cases 27, 94).
        (LLM, {"input": MESSAGES, "output": "labels"}, MODALITY,
         "this model has no operation from messages to labels; chat_generation takes messages_text"
         " (modalities: text) and gives text; text_generation takes text (modalities: text) and"
         " gives text"),
        (LLM, {"input": A_TEXT, "output": "pcm_s16le"}, MODALITY,
         "this model has no operation from text to pcm_s16le; "),
        (LLM, {"input": A_TEXT, "output": "pcm_f32le"}, MODALITY, "no operation from text"),
        (LLM, {"input": MESSAGES, "output": "relevance_scores"}, MODALITY,
         "no operation from messages to relevance_scores; chat_generation takes"),
        (LLM, {"input": MESSAGES, "semantic_task": "text_generation"}, MODALITY,
         "no operation from messages to text with semantic_task text_generation; chat_generation"),
        (LLM, {"input": A_TEXT, "semantic_task": "rerank"}, MODALITY,
         "no operation from text to text with semantic_task rerank; "),
        (EMB, {"input": A_TEXT, "output": "embeddings_float32",
               "semantic_task": "text_generation"}, MODALITY,
         "no operation from text to embeddings_float32 with semantic_task text_generation;"
         " none of its capabilities is available now"),
        (EMB, {"input": A_TEXT, "output": "embeddings_float32", "stream": True}, MODALITY,
         "no operation from text to embeddings_float32 as a stream; none of its"),
        (EMB, {"input": MESSAGES}, MODALITY,
         "no operation from messages to text; none of its capabilities is available now"),
        (RR, {"input": A_TEXT}, MODALITY, "no operation from text to text"),
        # What the model means and cannot do now keeps its reason (case 32).
        (COLD, {"input": MESSAGES}, UNAVAILABLE,
         "not available now (chat_generation: runtime_unavailable)"),
        (COLD, {"input": MESSAGES, "capability": "chat_generation"}, UNAVAILABLE,
         "not available now (chat_generation: runtime_unavailable)"),
        (COLD, {"input": A_TEXT, "stream": True}, UNAVAILABLE,
         "not available now (chat_generation: runtime_unavailable; text_generation:"
         " runtime_unavailable)"),
        (UNTOLD, {"input": MESSAGES}, UNAVAILABLE,
         "not available now (chat_generation: unknown_model_task)"),
        (EMB, {"input": MESSAGES, "capability": "chat_generation"}, UNAVAILABLE,
         "not available now (chat_generation: model_task_mismatch)"),
        # Known words of later releases.
        (LLM, {"input": {"kind": "text_batch"}, "output": "embeddings_float32"}, UNAVAILABLE,
         "not available now (text_embedding: unsupported_adapter)"),
        (EMB, {"input": A_TEXT, "output": "embeddings_float32",
               "options": {"kind": "embeddings", "dimensions": 4}}, UNAVAILABLE,
         "not available now (text_embedding: unsupported_adapter)"),
        (LLM, {"input": A_TEXT, "output": "png_base64", "options": {"kind": "image_generation"}},
         UNAVAILABLE, "not available now (image_generation: unsupported_adapter)"),
        (LLM, {"input": {"kind": "decision"}, "output": "decisions"}, UNAVAILABLE,
         "not available now (decision: unsupported_adapter)"),
        (LLM, {"input": {"kind": "rerank"}, "output": "relevance_scores"}, UNAVAILABLE,
         "not available now (rerank: unsupported_adapter)"),
        (LLM, {"input": {"kind": "content_batch"}, "output": "embeddings_float32"}, UNAVAILABLE,
         "not available now (multimodal_embedding: unsupported_adapter)"),
        (LLM, {"input": {"kind": "image"}, "output": "embeddings_float32"}, UNAVAILABLE,
         "not available now (multimodal_embedding: unsupported_adapter)"),
        (LLM, {"input": {"kind": "image"}}, UNAVAILABLE,
         "not available now (image_to_text: unsupported_adapter)"),
        (LLM, {"input": {"kind": "image_messages"}, "capability": "image_to_text"}, UNAVAILABLE,
         "not available now (image_to_text: unsupported_adapter)"),
        (LLM, {"input": {"kind": "image_messages"}}, UNAVAILABLE,
         "image_messages: unsupported_adapter"),
        (LLM, {"input": SEEN}, UNAVAILABLE, "messages with media parts: unsupported_adapter"),
        (LLM, {"input": SEEN, "capability": "chat_generation"}, UNAVAILABLE,
         "messages with media parts: unsupported_adapter"),
        (LLM, {"input": HEARD}, UNAVAILABLE, "messages with media parts: unsupported_adapter"),
        (COLD, {"input": SEEN}, UNAVAILABLE,
         "not available now (chat_generation: runtime_unavailable; image_to_text:"
         " unsupported_adapter)"),
        # Case 52.
        (LLM, {"input": {"kind": "audio"}, "capability": "audio_transcription"}, UNAVAILABLE,
         "not available now (audio_transcription: unqualified_audio_runtime)"),
        (LLM, {"input": {"kind": "audio"}}, UNAVAILABLE,
         "not available now (audio_transcription: unqualified_audio_runtime)"),
        (LLM, {"input": {"kind": "audio"}, "output": "labels"}, UNAVAILABLE,
         "not available now (audio_classification: unqualified_audio_runtime)"),
        # Options over the descriptor's bounds.
        (LLM, {"input": MESSAGES, "options": {**TEXT_OPTIONS, "max_tokens": 4097}}, INVALID,
         "`options.max_tokens` is 4097; chat_generation of this model allows 1 to 4096"),
    ],
)  # fmt: skip
def test_what_does_not_resolve(
    descriptors: Descriptors, changes: dict[str, Any], code: Code, words: str
) -> None:
    told_code, told = outcome(descriptors, **changes)
    assert told_code == code
    assert words in told
    assert told.isprintable()


def test_options_up_to_the_bound_resolve() -> None:
    options = {**TEXT_OPTIONS, "max_tokens": 4096, "temperature": 2, "top_p": 0}
    assert outcome(LLM, input=MESSAGES, options=options) == ("chat_generation", "")


def test_an_offer_without_a_modality_says_none() -> None:
    bare = tuple(d.model_copy(update={"input_modalities": ()}) for d in LLM)
    _, told = outcome(bare, input=MESSAGES, output="labels")
    assert "chat_generation takes messages_text (modalities: none) and gives text" in told


@pytest.mark.parametrize("changes", [{"capability": "chat_generation"}, {}])
def test_a_capability_that_is_not_listed_is_not_offered(changes: dict[str, Any]) -> None:
    code, told = outcome(LLM[1:], input=MESSAGES, **changes)
    assert code == MODALITY
    assert "this model has no operation from messages to text; text_generation takes text" in told


_availability = st.one_of(
    st.just(Available()),
    st.sampled_from(UnavailableReason).map(lambda reason: Unavailable(reason=reason)),
)
_bound = st.builds(
    OptionBound,
    option=st.sampled_from(["max_tokens", "temperature", "dimensions"]),
    minimum=st.integers(0, 2),
    maximum=st.integers(2, 5000),
)


@st.composite
def _descriptors(draw: st.DrawFn) -> Descriptors:
    """Any set of descriptors, some of which no release would declare."""
    listed = draw(st.lists(st.sampled_from(LLM), unique_by=lambda d: d.capability))
    return tuple(
        d.model_copy(
            update={
                "availability": draw(_availability),
                "option_bounds": tuple(draw(st.lists(_bound, max_size=2))),
            }
        )
        for d in listed
    )


@settings(deadline=None, max_examples=120)
@given(body=documents, descriptors=_descriptors())
def test_resolution_is_total_and_deterministic(
    body: dict[str, Any], descriptors: Descriptors
) -> None:
    asked = parse_operation(raw(body))

    def attempt(order: Descriptors) -> tuple[str, str]:
        try:
            found = resolve(asked, order)
        except ContractError as error:
            assert error.code in (INVALID, AMBIGUOUS, MODALITY, UNAVAILABLE)
            return error.code, error.message
        assert found in order
        assert isinstance(found.availability, Available)
        assert asked.capability in (None, found.capability)
        assert asked.semantic_task in (None, found.semantic_task)
        assert asked.output in found.output_formats
        return "", found.capability

    assert attempt(descriptors) == attempt(descriptors)
    # What is chosen does not hang on the order in which descriptors are listed.
    assert attempt(descriptors[::-1])[0] == attempt(descriptors)[0]


@settings(deadline=None, max_examples=60)
@given(body=documents)
def test_only_text_resolves_on_a_model_of_this_release(body: dict[str, Any]) -> None:
    asked = parse_operation(json.dumps(body).encode())
    try:
        found = resolve(asked, LLM)
    except ContractError:
        return
    assert found.capability in (Capability.CHAT_GENERATION, Capability.TEXT_GENERATION)
    assert asked.input.kind in ("text", "messages")
    assert asked.options is None or asked.options.kind == "text_generation"


def test_an_input_of_no_known_type_is_a_fault_of_ours() -> None:
    with pytest.raises(AssertionError):
        resolve(operation().model_copy(update={"input": object()}), LLM)
