"""Which capability a request is: one literal table of requests, and that there always is one answer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumas_server.capabilities import resolve
from pumas_server.contract.descriptors import (
    Available,
    OptionBound,
    Unavailable,
    UnavailableReason,
)
from pumas_server.contract.errors import Code, ContractError
from pumas_server.contract.registry import parse_operation
from pumas_server.contract.words import Capability
from support.documents import (
    INPUTS,
    OPTIONS,
    QUESTIONS,
    audio_part,
    clip,
    image,
    image_part,
    operation,
    raw,
    text_part,
)
from support.offers import MODELS, Descriptors
from support.well_formed import documents

INVALID, AMBIGUOUS = Code.INVALID_REQUEST, Code.AMBIGUOUS_OPERATION
MODALITY, UNAVAILABLE = Code.UNSUPPORTED_MODALITY, Code.CAPABILITY_UNAVAILABLE


def turns(*parts: Any, kind: str = "messages") -> dict[str, Any]:
    return {"kind": kind, "messages": [{"role": "user", "content": list(parts)}]}


A_TEXT, TEXTS, RERANK = INPUTS["text"], INPUTS["text_batch"], INPUTS["rerank"]
HI = {"kind": "messages", "messages": [{"role": "user", "content": "hi"}]}
PARTS = turns(text_part("a"), text_part("b"))
SEEN = turns(text_part(), image_part(), text_part(), image_part(encoding="jpeg"))
LOOK = turns(image_part(), kind="image_messages")
HEARD = turns(audio_part(), text_part())
BOTH = turns(image_part(), audio_part())
LOOK_AND_LISTEN = turns(image_part(), audio_part(), kind="image_messages")
PNG, JPEG = image_part(), image_part(encoding="jpeg")
CLIP, FLOATS = audio_part(), {"kind": "audio", **clip("pcm_f32le")}
BATCH = {"kind": "content_batch", "items": [{"parts": [text_part(), image_part()]},
                                            {"parts": [text_part()]}]}  # fmt: skip
TEXT_ITEMS = {"kind": "content_batch", "items": [{"parts": [text_part()]}]}
HEARD_ITEMS = {"kind": "content_batch", "items": [{"parts": [audio_part()]}]}
ASKED = {"kind": "decision", "state": None, "questions": QUESTIONS}
SHOWN = {**ASKED, "images": [image()]}
VECTORS, SCORES, DECISIONS = "embeddings_float32", "relevance_scores", "decisions"


def asked(
    wanted: Any, output: str = "text", capability: str = "", task: str = "", **changes: Any
) -> dict[str, Any]:
    """What a request changes of the base."""
    return {
        "input": wanted,
        "output": output,
        "capability": capability or ...,
        "semantic_task": task or ...,
        "options": ...,
        **changes,
    }


def answer(name: str, changes: dict[str, Any]) -> tuple[str, str]:
    """The resolved capability, or the code of the refusal and its words."""
    try:
        return resolve(operation(**changes), MODELS[name]).capability, ""
    except ContractError as error:
        return error.code, error.message.removeprefix("request does not match the contract: ")


#: A row for each line of the document's table and each way to write it.
RESOLVES = [
    # chat_generation: messages, or text as one user message.
    ("llm", asked(HI), "chat_generation"),
    ("llm", asked(PARTS), "chat_generation"),
    ("llm", asked(HI, stream=True), "chat_generation"),
    ("llm", asked(HI, stream=False), "chat_generation"),
    ("llm", asked(HI, options=OPTIONS["text_generation"]), "chat_generation"),
    ("llm", asked(HI, capability="chat_generation"), "chat_generation"),
    ("llm", asked(HI, task="chat_generation"), "chat_generation"),
    ("llm", asked(HI, capability="chat_generation", task="chat_generation"), "chat_generation"),
    ("llm", asked(A_TEXT, capability="chat_generation"), "chat_generation"),
    ("llm", asked(A_TEXT, task="chat_generation", stream=True), "chat_generation"),
    ("chat only", asked(A_TEXT), "chat_generation"),
    ("chat only", asked(A_TEXT, stream=True), "chat_generation"),
    ("vlm", asked(HI), "chat_generation"),
    ("omni", asked(HI), "chat_generation"),
    # text_generation: text.
    ("llm", asked(A_TEXT, capability="text_generation"), "text_generation"),
    ("llm", asked(A_TEXT, capability="text_generation", stream=True), "text_generation"),
    ("llm", asked(A_TEXT, task="text_generation"), "text_generation"),
    ("llm", asked(A_TEXT, capability="text_generation", task="text_generation"),
     "text_generation"),
    # text_embedding: text or text_batch.
    ("emb", asked(A_TEXT, VECTORS), "text_embedding"),
    ("emb", asked(TEXTS, VECTORS), "text_embedding"),
    ("emb", asked(TEXTS, VECTORS, stream=False), "text_embedding"),
    ("emb", asked(TEXTS, VECTORS, "text_embedding"), "text_embedding"),
    ("emb", asked(A_TEXT, VECTORS, task="text_embedding"), "text_embedding"),
    ("emb", asked(A_TEXT, VECTORS, options={"kind": "embeddings", "dimensions": 8}),
     "text_embedding"),
    ("emb without a width", asked(A_TEXT, VECTORS, options={"kind": "embeddings",
                                                          "dimensions": 9000}), "text_embedding"),
    ("mme", asked(A_TEXT, VECTORS), "text_embedding"),
    # multimodal_embedding: image or content_batch.
    ("mme", asked(PNG, VECTORS), "multimodal_embedding"),
    ("mme", asked(JPEG, VECTORS), "multimodal_embedding"),
    ("mme", asked(BATCH, VECTORS), "multimodal_embedding"),
    ("mme", asked(TEXT_ITEMS, VECTORS), "multimodal_embedding"),
    ("mme", asked(BATCH, VECTORS, "multimodal_embedding"), "multimodal_embedding"),
    ("mme", asked(BATCH, VECTORS, options=OPTIONS["embeddings"]), "multimodal_embedding"),
    # image_generation: text.
    ("img", asked(A_TEXT, "png_base64", options=OPTIONS["image_generation"]),
     "image_generation"),
    ("img", asked(A_TEXT, "png_base64", "image_generation", "text_to_image",
                     options=OPTIONS["image_generation"]), "image_generation"),
    # image_to_text: image, image_messages, or messages with images and no audio.
    ("vlm", asked(PNG), "image_to_text"),
    ("vlm", asked(JPEG), "image_to_text"),
    ("vlm", asked(LOOK), "image_to_text"),
    ("vlm", asked(SEEN), "image_to_text"),
    ("omni", asked(SEEN), "image_to_text"),
    ("omni", asked(SEEN, capability="image_to_text"), "image_to_text"),
    ("omni", asked(SEEN, task="image_to_text"), "image_to_text"),
    ("omni", asked(SEEN, options=OPTIONS["text_generation"]), "image_to_text"),
    # Chat takes them when the request names it.
    ("omni", asked(SEEN, capability="chat_generation"), "chat_generation"),
    ("omni", asked(SEEN, task="chat_generation"), "chat_generation"),
    ("omni", asked(LOOK, capability="chat_generation"), "chat_generation"),
    ("omni", asked(SEEN, capability="chat_generation", stream=True), "chat_generation"),
    ("sees not now", asked(SEEN, capability="chat_generation"), "chat_generation"),
    # Any audio part makes it chat's.
    ("omni", asked(HEARD), "chat_generation"),
    ("omni", asked(HEARD, stream=True), "chat_generation"),
    ("omni", asked(HEARD, capability="chat_generation"), "chat_generation"),
    ("omni", asked(BOTH), "chat_generation"),
    ("omni", asked(LOOK_AND_LISTEN), "chat_generation"),
    # decision; rerank. Their options are optional.
    ("dec", asked(ASKED, DECISIONS), "decision"),
    ("dec", asked(ASKED, DECISIONS, "decision", "decision"), "decision"),
    ("dec", asked(ASKED, DECISIONS, options={"kind": "decision"}), "decision"),
    ("dec", asked({**ASKED, "images": [], "audio": None}, DECISIONS), "decision"),
    ("dec with eyes", asked(SHOWN, DECISIONS), "decision"),
    ("rr", asked(RERANK, SCORES), "rerank"),
    ("rr", asked(RERANK, SCORES, "rerank"), "rerank"),
    ("rr", asked(RERANK, SCORES, task="rerank"), "rerank"),
    ("rr", asked(RERANK, SCORES, options={"kind": "rerank", "top_n": 2}), "rerank"),
    # Reserved.
    ("transcribes", asked(CLIP), "audio_transcription"),
    ("transcribes", asked(FLOATS, options=OPTIONS["audio_transcription"]), "audio_transcription"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changes", "expected"), RESOLVES)
def test_what_resolves(name: str, changes: dict[str, Any], expected: str) -> None:
    assert answer(name, changes) == (expected, "")


#: Several capabilities carry it out: the caller names one.
AMBIGUOUSLY = [
    ("llm", asked(A_TEXT)),
    ("llm", asked(A_TEXT, options=OPTIONS["text_generation"])),
    ("llm", asked(A_TEXT, stream=True)),
    ("vlm", asked(A_TEXT)),
    # Options never choose, of whatever kind they are.
    ("llm", asked(A_TEXT, options=OPTIONS["embeddings"])),
]


@pytest.mark.parametrize(("name", "changes"), AMBIGUOUSLY)
def test_case_21_an_ambiguous_operation(name: str, changes: dict[str, Any]) -> None:
    assert answer(name, changes) == (
        AMBIGUOUS,
        "several capabilities carry out this request; name one as `capability`:"
        " chat_generation, text_generation",
    )


#: A named capability that disagrees with the rest of the request, on any model.
DISAGREES = [
    # Input.
    (asked(HI, capability="text_generation"),
     "capability text_generation does not take messages; it takes text"),
    (asked(SEEN, capability="text_generation"),
     "capability text_generation does not take messages with image; it takes text"),
    (asked(BOTH, capability="image_to_text"),
     "capability image_to_text does not take messages with audio and image; it takes png_base64,"
     " jpeg_base64, messages_image"),
    (asked(HI, capability="image_to_text"),
     "capability image_to_text does not take messages; it takes"),
    (asked(PNG, capability="chat_generation"),
     "capability chat_generation does not take image; it takes messages_text"),
    (asked(RERANK, capability="chat_generation"),
     "capability chat_generation does not take rerank; it takes messages_text"),
    (asked(HI, SCORES, "rerank"), "capability rerank does not take messages; it takes rerank"),
    (asked(HI, VECTORS, "text_embedding"),
     "capability text_embedding does not take messages; it takes text, text_batch"),
    (asked(A_TEXT, VECTORS, "multimodal_embedding"), "does not take text; it takes png_base64"),
    (asked(A_TEXT, DECISIONS, "decision"), "capability decision does not take text"),
    (asked(A_TEXT, capability="audio_transcription"),
     "capability audio_transcription does not take text; it takes pcm_s16le, pcm_f32le"),
    # Output.
    (asked(HI, "png_base64", "chat_generation", options=OPTIONS["image_generation"]),
     "capability chat_generation does not give png_base64; it gives text"),
    (asked(A_TEXT, "pcm_s16le", "text_generation"),
     "capability text_generation does not give pcm_s16le; it gives text"),
    (asked(A_TEXT, capability="text_embedding"),
     "capability text_embedding does not give text; it gives embeddings_float32"),
    (asked(A_TEXT, "text", "image_generation", options=OPTIONS["image_generation"]),
     "capability image_generation does not give text; it gives png_base64"),
    (asked(CLIP, capability="audio_classification"),
     "capability audio_classification does not give text; it gives labels"),
    (asked(RERANK, capability="rerank"), "does not give text; it gives relevance_scores"),
    # Semantic task.
    (asked(A_TEXT, capability="text_generation", task="chat_generation"),
     "the semantic_task of capability text_generation is text_generation"),
    (asked(CLIP, capability="audio_transcription", task="audio_classification"),
     "the semantic_task of capability audio_transcription is speech_to_text"),
    # Options.
    (asked(HI, capability="chat_generation", options=OPTIONS["embeddings"]),
     "the options of capability chat_generation are of kind text_generation"),
    (asked(A_TEXT, VECTORS, "text_embedding", options=OPTIONS["text_generation"]),
     "the options of capability text_embedding are of kind embeddings"),
    (asked(RERANK, SCORES, "rerank", options=OPTIONS["decision"]),
     "the options of capability rerank are of kind rerank"),
    (asked(ASKED, DECISIONS, "decision", options=OPTIONS["rerank"]),
     "the options of capability decision are of kind decision"),
    # Stream.
    (asked(A_TEXT, VECTORS, "text_embedding", stream=True),
     "`stream` is for text generation; capability text_embedding does not stream"),
    (asked(RERANK, SCORES, "rerank", stream=True), "capability rerank does not stream"),
    (asked(SEEN, capability="image_to_text", stream=True), "image_to_text does not stream"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "words"), DISAGREES)
def test_a_named_capability_has_to_agree_on_any_model(changes: dict[str, Any], words: str) -> None:
    # Also where it could not be carried out: the request is wrong whatever it is sent to.
    for name in MODELS:
        code, told = answer(name, changes)
        assert code == INVALID
        assert words in told


def test_case_28_options_of_another_kind() -> None:
    changes = asked(HI, capability="chat_generation", options={"kind": "embeddings"})
    assert answer("llm", changes)[0] == INVALID


def test_case_29_an_output_of_another_kind() -> None:
    changes = asked(HI, "png_base64", "chat_generation", options=OPTIONS["image_generation"])
    assert answer("llm", changes)[0] == INVALID


def test_case_34_a_stream_of_vectors() -> None:
    changes = asked(TEXTS, VECTORS, "text_embedding", stream=True)
    assert answer("emb", changes)[0] == INVALID


#: Options that do not go with what was resolved.
WRONG_OPTIONS = [
    ("llm", asked(HI, options=OPTIONS["embeddings"]),
     "the options of capability chat_generation are of kind text_generation"),
    ("chat only", asked(A_TEXT, options=OPTIONS["rerank"]),
     "the options of capability chat_generation are of kind text_generation"),
    ("emb", asked(A_TEXT, VECTORS, options=OPTIONS["text_generation"]),
     "the options of capability text_embedding are of kind embeddings"),
    ("dec", asked(ASKED, DECISIONS, options=OPTIONS["rerank"]),
     "the options of capability decision are of kind decision"),
    # Over what the descriptor says.
    ("llm", asked(HI, options={"kind": "text_generation", "max_tokens": 4097}),
     "`options.max_tokens` is 4097; chat_generation of this model allows 1 to 4096"),
    ("llm", asked(A_TEXT, capability="text_generation",
                  options={"kind": "text_generation", "max_tokens": 4097}),
     "`options.max_tokens` is 4097; text_generation of this model allows 1 to 4096"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changes", "words"), WRONG_OPTIONS)
def test_options_that_the_resolved_capability_does_not_take(
    name: str, changes: dict[str, Any], words: str
) -> None:
    assert answer(name, changes) == (INVALID, words)


def test_case_54_more_dimensions_than_the_width_that_is_known() -> None:
    changes = asked(A_TEXT, VECTORS, options={"kind": "embeddings", "dimensions": 9})
    told = "`options.dimensions` is 9; text_embedding of this model allows 1 to 8"
    assert answer("emb", changes) == (INVALID, told)
    changes = asked(A_TEXT, VECTORS, options={"kind": "embeddings", "dimensions": 8193})
    assert answer("emb", changes)[0] == INVALID


def test_options_up_to_the_bound_resolve() -> None:
    options = {"kind": "text_generation", "max_tokens": 4096, "temperature": 2, "top_p": 0}
    assert answer("llm", asked(HI, options=options)) == ("chat_generation", "")


LLM_TAKES = (
    "chat_generation takes messages_text (modalities: text) and gives text; text_generation takes"
    " text (modalities: text) and gives text"
)
EMB_TAKES = "text_embedding takes text, text_batch (modalities: text) and gives embeddings_float32"
NONE_NOW = "none of its capabilities is available now"

#: No capability of the model means this: it never will be.
UNSUPPORTED = [
    ("llm", asked(HI, "labels"), "from messages to labels; " + LLM_TAKES),
    ("llm", asked(A_TEXT, "labels"), "from text to labels; " + LLM_TAKES),
    ("llm", asked(A_TEXT, "pcm_s16le"), "from text to pcm_s16le; " + LLM_TAKES),
    ("llm", asked(A_TEXT, "pcm_f32le"), "from text to pcm_f32le; " + LLM_TAKES),
    ("llm", asked(HI, "pcm_f32le"), "from messages to pcm_f32le; " + LLM_TAKES),
    ("llm", asked(HI, SCORES), "from messages to relevance_scores; " + LLM_TAKES),
    ("llm", asked(A_TEXT, VECTORS), "from text to embeddings_float32; " + LLM_TAKES),
    ("llm", asked(TEXTS, VECTORS), "from text_batch to embeddings_float32; " + LLM_TAKES),
    ("llm", asked(TEXTS), "from text_batch to text; " + LLM_TAKES),
    ("llm", asked(A_TEXT, "png_base64", options=OPTIONS["image_generation"]),
     "from text to png_base64; " + LLM_TAKES),
    ("llm", asked(HI, task="text_generation"),
     "from messages to text with semantic_task text_generation; " + LLM_TAKES),
    ("llm", asked(A_TEXT, task="rerank"),
     "from text to text with semantic_task rerank; " + LLM_TAKES),
    ("llm", asked(HI, task="image_to_text"), "with semantic_task image_to_text; " + LLM_TAKES),
    ("llm", asked(SEEN), "from messages with image to text; " + LLM_TAKES),
    ("llm", asked(LOOK), "from image_messages with image to text; " + LLM_TAKES),
    ("llm", asked(PNG), "from image to text; " + LLM_TAKES),
    ("llm", asked(SEEN, capability="chat_generation"), "from messages with image to text; "),
    ("llm", asked(SEEN, task="chat_generation"), "with semantic_task chat_generation; "),
    ("llm", asked(HEARD), "from messages with audio to text; " + LLM_TAKES),
    ("llm", asked(HEARD, capability="chat_generation"), "from messages with audio to text; "),
    ("vlm", asked(HEARD), "from messages with audio to text; chat_generation takes messages_text"
     " (modalities: text, image) and gives text; "),
    ("vlm", asked(BOTH), "from messages with audio and image to text; "),
    ("vlm", asked(SEEN, stream=True), "from messages with image to text as a stream; "),
    ("omni", asked(HEARD, task="image_to_text"), "with semantic_task image_to_text; "),
    ("mme", asked(HEARD_ITEMS, VECTORS), "from content_batch with audio to embeddings_float32; "
     + EMB_TAKES + "; multimodal_embedding takes png_base64, jpeg_base64, content_batch"
     " (modalities: text, image) and gives embeddings_float32"),
    ("emb", asked(BATCH, VECTORS), "from content_batch with image to embeddings_float32; "
     + EMB_TAKES),
    ("emb", asked(HI), "from messages to text; " + EMB_TAKES),
    ("emb", asked(A_TEXT), "from text to text; " + EMB_TAKES),
    ("emb", asked(A_TEXT, VECTORS, stream=True),
     "from text to embeddings_float32 as a stream; " + EMB_TAKES),
    ("rr", asked(A_TEXT), "from text to text; rerank takes rerank (modalities: text) and gives"
     " relevance_scores"),
    ("dec", asked(HI), "from messages to text; decision takes decision (modalities: text) and gives"
     " decisions"),
    ("dec", asked(SHOWN, DECISIONS), "from decision with image to decisions; decision takes"),
    ("dec", asked(SHOWN, DECISIONS, "decision"), "from decision with image to decisions; "),
    ("cold", asked(RERANK, SCORES), "from rerank to relevance_scores; " + NONE_NOW),
    ("cold", asked(SEEN), "from messages with image to text; " + NONE_NOW),
    ("cold dec", asked(HI), "from messages to text; " + NONE_NOW),
    ("nothing", asked(HI), "from messages to text; " + NONE_NOW),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changes", "words"), UNSUPPORTED)
def test_what_a_model_never_does(name: str, changes: dict[str, Any], words: str) -> None:
    code, told = answer(name, changes)
    assert code == MODALITY
    assert told.startswith("this model has no operation from ")
    assert words in told
    assert told.isprintable()


def test_case_27_a_semantic_task_that_the_output_contradicts() -> None:
    code, told = answer("emb", asked(A_TEXT, VECTORS, task="text_generation"))
    assert code == MODALITY
    assert told.endswith("with semantic_task text_generation; " + EMB_TAKES)


def test_case_40_an_image_part_to_a_model_of_text() -> None:
    assert answer("llm", asked(SEEN)) == (
        MODALITY,
        "this model has no operation from messages with image to text; " + LLM_TAKES,
    )


@pytest.mark.parametrize(
    ("wanted", "output"),
    [(ASKED, DECISIONS), (RERANK, SCORES), (BATCH, VECTORS), (TEXT_ITEMS, VECTORS)],
)
def test_case_94_structured_inputs_to_a_model_of_text(wanted: Any, output: str) -> None:
    code, told = answer("llm", asked(wanted, output))
    assert code == MODALITY
    assert told.endswith(LLM_TAKES)


#: What the model means, or is asked for by name, and cannot do now: it keeps its own reason.
NOT_NOW = [
    ("cold", asked(HI), "chat_generation: runtime_unavailable"),
    ("cold", asked(HI, capability="chat_generation"), "chat_generation: runtime_unavailable"),
    ("cold", asked(HI, stream=True), "chat_generation: runtime_unavailable"),
    ("cold", asked(A_TEXT, stream=True),
     "chat_generation: runtime_unavailable; text_generation: runtime_unavailable"),
    ("cold", asked(HEARD), "chat_generation: runtime_unavailable"),
    ("cold emb", asked(TEXTS, VECTORS), "text_embedding: runtime_unavailable"),
    ("cold dec", asked(ASKED, DECISIONS), "decision: runtime_unavailable"),
    ("untold", asked(HI), "chat_generation: unknown_model_task"),
    ("untold", asked(RERANK, SCORES), "rerank: unknown_model_task"),
    ("sees not now", asked(SEEN), "image_to_text: runtime_unavailable"),
    ("sees not now", asked(PNG), "image_to_text: runtime_unavailable"),
    # Named, although the model is for something else.
    ("emb", asked(HI, capability="chat_generation"), "chat_generation: model_task_mismatch"),
    ("llm", asked(RERANK, SCORES, "rerank"), "rerank: model_task_mismatch"),
    ("llm", asked(TEXTS, VECTORS, "text_embedding"), "text_embedding: model_task_mismatch"),
    ("llm", asked(SEEN, capability="image_to_text"), "image_to_text: model_task_mismatch"),
    # For want of its projector, or of its engine.
    ("vlm without a projector", asked(SEEN), "image_to_text: runtime_unavailable"),
    ("cold vlm", asked(SEEN), "image_to_text: runtime_unavailable"),
    ("cold img", asked(A_TEXT, "png_base64", options=OPTIONS["image_generation"]),
     "image_generation: runtime_unavailable"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changes", "words"), NOT_NOW)
def test_what_is_not_available_now(name: str, changes: dict[str, Any], words: str) -> None:
    assert answer(name, changes) == (UNAVAILABLE, f"not available now ({words})")


@pytest.mark.parametrize("name", sorted(set(MODELS) - {"transcribes"}))
def test_case_52_audio_is_reserved_on_every_model(name: str) -> None:
    told = "not available now (audio_transcription: unqualified_audio_runtime)"
    for options in (..., OPTIONS["audio_transcription"]):
        changes = asked(CLIP, capability="audio_transcription", options=options)
        assert answer(name, changes) == (UNAVAILABLE, told)
    assert answer(name, asked(FLOATS)) == (UNAVAILABLE, told)
    labels = "not available now (audio_classification: unqualified_audio_runtime)"
    assert answer(name, asked(CLIP, "labels")) == (UNAVAILABLE, labels)
    assert answer(name, asked(CLIP, "labels", "audio_classification")) == (UNAVAILABLE, labels)


def test_an_offer_without_a_modality_says_none() -> None:
    bare = tuple(d.model_copy(update={"input_modalities": ()}) for d in MODELS["llm"])
    with pytest.raises(ContractError) as caught:
        resolve(operation(**asked(HI, "labels")), bare)
    offer = "chat_generation takes messages_text (modalities: none) and gives text"
    assert offer in caught.value.message


@pytest.mark.parametrize("capability", ["chat_generation", ""])
def test_a_capability_that_is_not_listed_is_not_offered(capability: str) -> None:
    with pytest.raises(ContractError) as caught:
        resolve(operation(**asked(HI, capability=capability)), MODELS["llm"][1:])
    assert caught.value.code == MODALITY
    assert "from messages to text; text_generation takes text" in caught.value.message


_availability = st.one_of(
    st.just(Available()),
    st.sampled_from(UnavailableReason).map(lambda reason: Unavailable(reason=reason)),
)
_bound = st.builds(
    OptionBound,
    option=st.sampled_from(["max_tokens", "temperature", "dimensions", "top_n", "unheard_of"]),
    minimum=st.integers(0, 2),
    maximum=st.integers(2, 5000),
)


@st.composite
def _descriptors(draw: st.DrawFn) -> Descriptors:
    """Any set of descriptors, most of which no release would declare."""
    listed = draw(st.lists(st.sampled_from(MODELS["llm"]), unique_by=lambda d: d.capability))
    return tuple(
        d.model_copy(
            update={
                "availability": draw(_availability),
                "input_modalities": tuple(
                    draw(st.lists(st.sampled_from(["text", "image", "audio"]), unique=True))
                ),
                "streaming": draw(st.booleans()),
                "option_bounds": tuple(draw(st.lists(_bound, max_size=2))),
            }
        )
        for d in listed
    )


@settings(deadline=None, max_examples=50)
@given(body=documents, descriptors=_descriptors())
def test_resolution_is_total_and_deterministic(
    body: dict[str, Any], descriptors: Descriptors
) -> None:
    request = parse_operation(raw(body))

    def attempt(order: Descriptors) -> tuple[str, str]:
        try:
            found = resolve(request, order)
        except ContractError as error:
            assert error.code in (INVALID, AMBIGUOUS, MODALITY, UNAVAILABLE)
            return error.code, error.message
        assert found in order
        assert isinstance(found.availability, Available)
        assert request.capability in (None, found.capability)
        assert request.semantic_task in (None, found.semantic_task)
        assert request.output in found.output_formats
        assert request.input.modalities() <= {*found.input_modalities}
        return "", found.capability

    assert attempt(descriptors) == attempt(descriptors)
    # What is chosen does not hang on the order in which descriptors are listed.
    assert attempt(descriptors[::-1])[0] == attempt(descriptors)[0]


@settings(deadline=None, max_examples=40)
@given(body=documents, name=st.sampled_from(sorted(MODELS)))
def test_nothing_resolves_to_what_does_not_mean_it(body: dict[str, Any], name: str) -> None:
    request = parse_operation(raw(body))
    try:
        found = resolve(request, MODELS[name])
    except ContractError:
        return
    streams = (Capability.CHAT_GENERATION, Capability.TEXT_GENERATION)
    assert not request.stream or found.capability in streams
    assert (
        request.options is None
        or found.capability
        in {
            "text_generation": (*streams, Capability.IMAGE_TO_TEXT),
            "embeddings": (Capability.TEXT_EMBEDDING, Capability.MULTIMODAL_EMBEDDING),
            "image_generation": (Capability.IMAGE_GENERATION,),
            "decision": (Capability.DECISION,),
            "rerank": (Capability.RERANK,),
            "audio_transcription": (Capability.AUDIO_TRANSCRIPTION,),
        }[request.options.kind]
    )
