"""Requests in the engines' OpenAI dialect, from operations of the contract (notes §4).

One literal table says how each capability is carried out. Nothing that identifies the caller goes
upstream: no request id, no capability, no semantic task. Text is always asked for as a stream, and
aggregated for finite answers: an engine that streams notices at once that its client has left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from pumas_server.contract.inputs import (
    ContentBatchInput,
    DecisionInput,
    ImageInput,
    MessagesInput,
    RerankInput,
    TextBatchInput,
    TextInput,
)
from pumas_server.contract.options import EmbeddingOptions, ImageOptions, RerankOptions, TextOptions
from pumas_server.contract.request import Operation
from pumas_server.contract.results import Result
from pumas_server.contract.words import Capability
from pumas_server.media.request_media import CheckedClip
from pumas_server.provider.content import DESCRIBE, Content, image_part, image_url
from pumas_server.provider.deciding import project_decisions
from pumas_server.provider.embeddings import project_embeddings
from pumas_server.provider.imaging import project_image
from pumas_server.provider.json_pieces import encode
from pumas_server.provider.projection import TextForm
from pumas_server.provider.ranking import project_relevance

CHAT_PATH = "/v1/chat/completions"
COMPLETION_PATH = "/v1/completions"
EMBEDDING_PATH = "/v1/embeddings"
RERANK_PATH = "/v1/rerank"
DECISION_PATH = "/v1/systemone"
IMAGE_PATH = "/v1/images/generations"

#: Of an image nobody asked for more: an engine that finds no end would fill its whole context.
DESCRIPTION_TOKENS = 512


@dataclass(frozen=True, slots=True)
class TextCall:
    """One POST whose answer is a text stream."""

    path: str
    body: bytes
    form: TextForm


@dataclass(frozen=True, slots=True)
class JsonCall:
    """One POST whose answer is one JSON object, and what makes a result of it."""

    path: str
    body: bytes
    project: Callable[[bytes], Result]
    """A function of a module, with what it needs beside: it may be called in another process."""
    at_length: bool = False
    """Whether projecting takes long, however short the answer is."""


Call = TextCall | JsonCall


class Unsuitable(TypeError):
    """An operation was resolved to a capability that cannot carry its input: a fault of ours."""


def build_call(
    operation: Operation, capability: Capability, model: str, clips: Sequence[CheckedClip] = ()
) -> Call:
    """The upstream request of an operation that was resolved to `capability`.

    `clips`: all clips of the request as they were checked, in its order.
    """
    return BUILDERS[capability](operation, model, Content(clips))


def _chat(operation: Operation, model: str, content: Content) -> TextCall:
    match operation.input:
        case TextInput(text=text):
            messages: list[dict[str, object]] = [{"role": "user", "content": text}]
        case MessagesInput(messages=conversation):
            messages = [content.message(message) for message in conversation]
        case _:
            raise Unsuitable(operation.input.kind)
    members: dict[str, object] = {"model": model, "messages": messages}
    return TextCall(CHAT_PATH, encode(members | _text_members(operation)), TextForm.CHAT)


def _image_to_text(operation: Operation, model: str, content: Content) -> TextCall:
    wanted = operation.input
    match wanted:
        case ImageInput():
            parts = [{"type": "text", "text": DESCRIBE}, image_part(wanted)]
            messages: list[dict[str, object]] = [{"role": "user", "content": parts}]
        case MessagesInput(messages=conversation):
            messages = [content.message(message) for message in conversation]
        case _:
            raise Unsuitable(wanted.kind)
    members: dict[str, object] = {"model": model, "messages": messages}
    members |= {"max_tokens": DESCRIPTION_TOKENS} | _text_members(operation)
    return TextCall(CHAT_PATH, encode(members), TextForm.CHAT)


def _completion(operation: Operation, model: str, _: Content) -> TextCall:
    if not isinstance(operation.input, TextInput):
        raise Unsuitable(operation.input.kind)
    members: dict[str, object] = {"model": model, "prompt": operation.input.text}
    return TextCall(
        COMPLETION_PATH, encode(members | _text_members(operation)), TextForm.COMPLETION
    )


def _text_members(operation: Operation) -> dict[str, object]:
    members: dict[str, object] = {"stream": True, "n": 1}
    if isinstance(operation.options, TextOptions):
        members |= operation.options.model_dump(exclude={"kind"}, exclude_none=True)
    return members


def _embedding(operation: Operation, model: str, _: Content) -> JsonCall:
    texts: str | list[str]
    match operation.input:
        case TextInput(text=text):
            texts, count = text, 1
        case TextBatchInput(texts=batch):
            texts, count = batch, len(batch)
        case _:
            raise Unsuitable(operation.input.kind)
    return _vectors(operation, model, texts, count)


def _multimodal_embedding(operation: Operation, model: str, content: Content) -> JsonCall:
    wanted = operation.input
    match wanted:
        case ImageInput():
            items: list[dict[str, object]] = [{"content": [image_part(wanted)]}]
        case ContentBatchInput(items=batch):
            items = [content.item(item.parts) for item in batch]
        case _:
            raise Unsuitable(wanted.kind)
    return _vectors(operation, model, items, len(items))


def _vectors(operation: Operation, model: str, inputs: object, count: int) -> JsonCall:
    options = operation.options
    dimensions = options.dimensions if isinstance(options, EmbeddingOptions) else None
    return JsonCall(
        EMBEDDING_PATH,
        # `dimensions` is not sent: most engines ignore it, and the others would cut for us.
        encode({"model": model, "input": inputs, "encoding_format": "float"}),
        partial(project_embeddings, count=count, dimensions=dimensions),
    )


def _image_generation(operation: Operation, model: str, _: Content) -> JsonCall:
    wanted, options = operation.input, operation.options
    if not isinstance(wanted, TextInput) or not isinstance(options, ImageOptions):
        raise Unsuitable(wanted.kind)
    members: dict[str, object] = {"model": model, "prompt": wanted.text, "n": 1}
    members |= {"size": f"{options.width}x{options.height}", "response_format": "b64_json"}
    if options.seed is not None:
        members["seed"] = options.seed
    return JsonCall(
        IMAGE_PATH, encode(members), partial(project_image, options=options), at_length=True
    )


def _rerank(operation: Operation, model: str, _: Content) -> JsonCall:
    wanted = operation.input
    if not isinstance(wanted, RerankInput):
        raise Unsuitable(wanted.kind)
    options = operation.options
    top_n = options.top_n if isinstance(options, RerankOptions) else None
    return JsonCall(
        RERANK_PATH,
        encode({"model": model, "query": wanted.query, "documents": wanted.documents}),
        partial(project_relevance, count=len(wanted.documents), top_n=top_n),
    )


def _decision(operation: Operation, model: str, content: Content) -> JsonCall:
    wanted = operation.input
    if not isinstance(wanted, DecisionInput):
        raise Unsuitable(wanted.kind)
    questions = {
        name: question.model_dump(exclude_none=True) for name, question in wanted.questions.items()
    }
    # The engine reads null inside a state as nothing, but a state of null as none at all.
    state = "" if wanted.state is None else wanted.state
    members: dict[str, object] = {"model": model, "state": state, "questions": questions}
    media = [*map(image_url, wanted.images or ()), *map(content.wav_url, wanted.audio or ())]
    if media:
        # The engine tells sound from sight by the bytes and takes both here.
        members["images"] = media
    return JsonCall(
        DECISION_PATH, encode(members), partial(project_decisions, questions=wanted.questions)
    )


#: How each capability that has an adapter is carried out.
BUILDERS: Mapping[Capability, Callable[[Operation, str, Content], Call]] = MappingProxyType(
    {
        Capability.CHAT_GENERATION: _chat,
        Capability.TEXT_GENERATION: _completion,
        Capability.TEXT_EMBEDDING: _embedding,
        Capability.IMAGE_GENERATION: _image_generation,
        Capability.IMAGE_TO_TEXT: _image_to_text,
        Capability.MULTIMODAL_EMBEDDING: _multimodal_embedding,
        Capability.DECISION: _decision,
        Capability.RERANK: _rerank,
    }
)
