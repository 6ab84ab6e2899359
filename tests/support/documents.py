"""Operations as callers write them: the base of the handed cases, and all that are well-formed."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from pumas_server.contract.registry import parse_operation
from pumas_server.contract.request import UNREAD_INPUTS, UNREAD_OPTIONS, UNREAD_PARTS, Operation
from pumas_server.contract.words import Capability, Output, SemanticTask


def document(**changes: Any) -> dict[str, Any]:
    """The base operation with members replaced; `...` leaves one out."""
    body: dict[str, Any] = {
        "contract_version": 1,
        "request_id": "r1",
        "model": "llm",
        "capability": "chat_generation",
        "input": {"kind": "messages", "messages": [{"role": "user", "content": "hi"}]},
        "output": "text",
        "options": {"kind": "text_generation"},
    }
    body.update(changes)
    return {name: value for name, value in body.items() if value is not ...}


def with_options(**members: Any) -> dict[str, Any]:
    """The base operation with text options."""
    return document(options={"kind": "text_generation", **members})


def with_content(content: Any, role: str = "user") -> dict[str, Any]:
    """The base operation with one message of this content."""
    return with_messages([{"role": role, "content": content}])


def with_messages(messages: Any) -> dict[str, Any]:
    """The base operation with these messages."""
    return document(input={"kind": "messages", "messages": messages})


def raw(body: Any) -> bytes:
    """The bytes a caller sends."""
    return json.dumps(body).encode()


def operation(**changes: Any) -> Operation:
    """The parsed operation of a changed base."""
    return parse_operation(raw(document(**changes)))


_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
_texts = st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=12).filter(
    lambda text: text.strip() != ""
)
_unread_inside = st.dictionaries(
    st.sampled_from(["texts", "data_base64", "questions"]),
    st.one_of(st.none(), st.integers(), st.text(alphabet="ab"), st.lists(st.booleans())),
    max_size=2,
)


def _unread(kinds: frozenset[str]) -> st.SearchStrategy[dict[str, Any]]:
    kind = st.sampled_from(sorted(kinds))
    return st.builds(lambda kind, inside: {**inside, "kind": kind}, kind, _unread_inside)


_parts = st.one_of(
    st.fixed_dictionaries({"kind": st.just("text"), "text": _texts}), _unread(UNREAD_PARTS)
)
_messages = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["system", "user", "assistant"]),
        "content": st.one_of(_texts, st.lists(_parts, min_size=1, max_size=3)),
    }
)
_inputs = st.one_of(
    st.fixed_dictionaries({"kind": st.just("text"), "text": _texts}),
    st.fixed_dictionaries(
        {"kind": st.just("messages"), "messages": st.lists(_messages, min_size=1, max_size=3)}
    ),
    _unread(UNREAD_INPUTS),
)
_options = st.one_of(
    st.fixed_dictionaries(
        {"kind": st.just("text_generation")},
        optional={
            "max_tokens": st.one_of(st.none(), st.integers(1, 4_294_967_295)),
            "temperature": st.one_of(st.none(), st.integers(0, 2), st.floats(0, 2)),
            "top_p": st.one_of(st.none(), st.integers(0, 1), st.floats(0, 1)),
        },
    ),
    _unread(UNREAD_OPTIONS),
)

#: Every well-formed document of contract v1.
documents: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "contract_version": st.just(1),
        "request_id": st.text(alphabet=_LETTERS + ":", min_size=1, max_size=128),
        "model": st.text(alphabet=_LETTERS + "/:@+ é", min_size=1, max_size=64).map(
            lambda text: text.strip() or "m"
        ),
        "input": _inputs,
        "output": st.sampled_from([output.value for output in Output]),
    },
    optional={
        "profile": st.one_of(st.none(), st.text(alphabet=_LETTERS, min_size=1, max_size=16)),
        "capability": st.sampled_from([capability.value for capability in Capability]),
        "semantic_task": st.one_of(st.none(), st.sampled_from([t.value for t in SemanticTask])),
        "options": st.one_of(st.none(), _options),
        "stream": st.booleans(),
    },
)
