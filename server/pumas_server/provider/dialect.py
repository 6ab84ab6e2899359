"""Requests in the engines' OpenAI dialect, from operations of the contract (notes §4).

One literal table says how each capability is carried out. Nothing that identifies the caller goes
upstream: no request id, no capability, no semantic task. Text is always asked for as a stream, and
aggregated for finite answers: an engine that streams notices at once that its client has left.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pumas_server.contract.inputs import (
    DecisionInput,
    MessagesInput,
    RerankInput,
    TextBatchInput,
    TextInput,
)
from pumas_server.contract.options import EmbeddingOptions, RerankOptions, TextOptions
from pumas_server.contract.request import Operation
from pumas_server.contract.results import Result
from pumas_server.contract.words import Capability
from pumas_server.provider.deciding import project_decisions
from pumas_server.provider.embeddings import project_embeddings
from pumas_server.provider.projection import TextForm
from pumas_server.provider.ranking import project_relevance

CHAT_PATH = "/v1/chat/completions"
COMPLETION_PATH = "/v1/completions"
EMBEDDING_PATH = "/v1/embeddings"
RERANK_PATH = "/v1/rerank"
DECISION_PATH = "/v1/systemone"


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


Call = TextCall | JsonCall


class Unsuitable(TypeError):
    """An operation was resolved to a capability that cannot carry its input: a fault of ours."""


def build_call(operation: Operation, capability: Capability, model: str) -> Call:
    """The upstream request of an operation that was resolved to `capability`."""
    return BUILDERS[capability](operation, model)


def _chat(operation: Operation, model: str) -> TextCall:
    match operation.input:
        case TextInput(text=text):
            messages = [{"role": "user", "content": text}]
        case MessagesInput() as conversation if conversation.modalities() == {"text"}:
            messages = [{"role": m.role, "content": m.text()} for m in conversation.messages]
        case _:
            raise Unsuitable(operation.input.kind)
    members: dict[str, object] = {"model": model, "messages": messages}
    return TextCall(CHAT_PATH, _body(members | _text_members(operation)), TextForm.CHAT)


def _completion(operation: Operation, model: str) -> TextCall:
    if not isinstance(operation.input, TextInput):
        raise Unsuitable(operation.input.kind)
    members: dict[str, object] = {"model": model, "prompt": operation.input.text}
    return TextCall(COMPLETION_PATH, _body(members | _text_members(operation)), TextForm.COMPLETION)


def _text_members(operation: Operation) -> dict[str, object]:
    members: dict[str, object] = {"stream": True, "n": 1}
    if isinstance(operation.options, TextOptions):
        members |= operation.options.model_dump(exclude={"kind"}, exclude_none=True)
    return members


def _embedding(operation: Operation, model: str) -> JsonCall:
    texts: str | list[str]
    match operation.input:
        case TextInput(text=text):
            texts, count = text, 1
        case TextBatchInput(texts=batch):
            texts, count = batch, len(batch)
        case _:
            raise Unsuitable(operation.input.kind)
    options = operation.options
    dimensions = options.dimensions if isinstance(options, EmbeddingOptions) else None
    return JsonCall(
        EMBEDDING_PATH,
        # `dimensions` is not sent: most engines ignore it, and the others would cut for us.
        _body({"model": model, "input": texts, "encoding_format": "float"}),
        lambda raw: project_embeddings(raw, count, dimensions),
    )


def _rerank(operation: Operation, model: str) -> JsonCall:
    wanted = operation.input
    if not isinstance(wanted, RerankInput):
        raise Unsuitable(wanted.kind)
    options = operation.options
    top_n = options.top_n if isinstance(options, RerankOptions) else None
    return JsonCall(
        RERANK_PATH,
        _body({"model": model, "query": wanted.query, "documents": wanted.documents}),
        lambda raw: project_relevance(raw, len(wanted.documents), top_n),
    )


def _decision(operation: Operation, model: str) -> JsonCall:
    wanted = operation.input
    if not isinstance(wanted, DecisionInput) or wanted.modalities() != {"text"}:
        raise Unsuitable(wanted.kind)
    questions = {
        name: question.model_dump(exclude_none=True) for name, question in wanted.questions.items()
    }
    # The engine reads null inside a state as nothing, but a state of null as none at all.
    state = "" if wanted.state is None else wanted.state
    return JsonCall(
        DECISION_PATH,
        _body({"model": model, "state": state, "questions": questions}),
        lambda raw: project_decisions(raw, wanted.questions),
    )


def _body(members: Mapping[str, object]) -> bytes:
    return json.dumps(members, ensure_ascii=False).encode()


#: How each capability that has an adapter is carried out.
BUILDERS: Mapping[Capability, Callable[[Operation, str], Call]] = MappingProxyType(
    {
        Capability.CHAT_GENERATION: _chat,
        Capability.TEXT_GENERATION: _completion,
        Capability.TEXT_EMBEDDING: _embedding,
        Capability.DECISION: _decision,
        Capability.RERANK: _rerank,
    }
)
