"""Descriptors of models of every sort: as declared, and with something gone or more of it there."""

from __future__ import annotations

from typing import Any

from pumas_crds.vocabulary import EngineMode, Task
from pumas_server.capabilities import Facts, declare
from pumas_server.contract.descriptors import (
    Available,
    Descriptor,
    Modalities,
    Unavailable,
    UnavailableReason,
)
from support.models import served_model

Descriptors = tuple[Descriptor, ...]

TEXT = Modalities(input=("text",), output=("text",))
VISION = Modalities(input=("text", "image"), output=("text",))
OMNI = Modalities(input=("text", "image", "audio"), output=("text",))
VECTOR = Modalities(input=("text",), output=("vector",))
VECTOR_VISION = Modalities(input=("text", "image"), output=("vector",))
JSON = Modalities(input=("text",), output=("json",))


def model(task: Task | None = None, mode: str | None = None, **facts: Any) -> Descriptors:
    spec: dict[str, Any] = {"task": task.value} if task is not None else {}
    return declare(
        served_model(**spec).spec, Facts(mode=EngineMode(mode) if mode else None, **facts)
    )


def able(descriptors: Descriptors, **takes: str) -> Descriptors:
    """As if a release had adapters for these, which take these modalities."""
    return tuple(
        d.model_copy(
            update={
                "availability": Available(),
                "input_modalities": tuple(takes[d.capability].split()),
            }
        )
        if d.capability in takes
        else d
        for d in descriptors
    )


def gone(descriptors: Descriptors, capability: str) -> Descriptors:
    """As if the runtime of that capability were not ready."""
    reason = Unavailable(reason=UnavailableReason.RUNTIME_UNAVAILABLE)
    return tuple(
        d.model_copy(update={"availability": reason}) if d.capability == capability else d
        for d in descriptors
    )


VECTOR_OMNI = Modalities(input=("text", "image", "audio"), output=("vector",))
SEEING_JSON = Modalities(input=("text", "image"), output=("json",))
PICTURES = Modalities(input=("text",), output=("image",))

#: Models as they are declared.
DECLARED: dict[str, Descriptors] = {
    "llm": model(mode="generate", modalities=TEXT, ready=True, context_tokens=4096),
    "vlm": model(mode="generate", modalities=VISION, ready=True),
    "omni": model(mode="generate", modalities=OMNI, ready=True),
    "cold": model(Task.TEXT_GENERATION),
    "cold vlm": model(Task.IMAGE_TEXT_TO_TEXT),
    "vlm without a projector": model(Task.IMAGE_TEXT_TO_TEXT, modalities=TEXT, ready=True),
    "untold": model(),
    "emb": model(mode="embed", modalities=VECTOR, ready=True, embedding_width=8),
    "emb without a width": model(mode="embed", modalities=VECTOR, ready=True),
    "cold emb": model(Task.FEATURE_EXTRACTION),
    "mme": model(mode="embed", modalities=VECTOR_VISION, ready=True),
    "omni emb": model(mode="embed", modalities=VECTOR_OMNI, ready=True),
    "rr": model(mode="rerank", modalities=JSON, ready=True),
    "dec": model(mode="decide", modalities=JSON, ready=True),
    "dec with eyes": model(mode="decide", modalities=SEEING_JSON, ready=True),
    "cold dec": model(mode="decide"),
    "img": model(mode="generate-image", modalities=PICTURES, ready=True),
    "cold img": model(Task.TEXT_TO_IMAGE),
    "nothing": model(Task.FILL_MASK, modalities=TEXT, ready=True),
}
#: And with something gone, or as a release with an adapter for transcription will.
MODELS: dict[str, Descriptors] = {
    **DECLARED,
    "chat only": gone(DECLARED["llm"], "text_generation"),
    "sees not now": gone(DECLARED["vlm"], "image_to_text"),
    "transcribes": able(
        model(Task.AUTOMATIC_SPEECH_RECOGNITION, modalities=OMNI, ready=True),
        audio_transcription="audio",
    ),
}
