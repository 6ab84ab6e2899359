"""The engine's public routes that are forwarded byte for byte, and what each asks of a model. Pure.

What is not in this table cannot be reached: an engine's management routes never are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pumas_server.contract.words import Capability
from pumas_server.provider.address import Address
from pumas_server.provider.envelope import read_envelope
from pumas_server.provider.form_envelope import read_form, refuse_form
from pumas_server.provider.remote_media import refuse_remote_media, refuse_trailing_audio

#: A body and its Content-Type in; raises `ContractError` for what may not be forwarded.
Reader = Callable[[bytes, str], Address]


def _read_json(raw: bytes, content_type: str) -> Address:
    refuse_form(content_type)
    envelope = read_envelope(raw)
    refuse_remote_media(envelope.members)
    return envelope.address


def _read_embedding(raw: bytes, content_type: str) -> Address:
    refuse_form(content_type)
    envelope = read_envelope(raw)
    refuse_remote_media(envelope.members)
    refuse_trailing_audio(envelope.members)
    return envelope.address


@dataclass(frozen=True, slots=True)
class ForwardedRoute:
    """What a model has to offer to be sent a request of this route."""

    capability: Capability
    read: Reader = _read_json
    requires: tuple[str, ...] = ()
    """Kinds of content that it has to take beside."""
    body: str = "application/json"
    """How the body is written."""


ROUTES: Mapping[str, ForwardedRoute] = MappingProxyType(
    {
        "/v1/chat/completions": ForwardedRoute(Capability.CHAT_GENERATION),
        "/v1/completions": ForwardedRoute(Capability.TEXT_GENERATION),
        "/v1/embeddings": ForwardedRoute(Capability.TEXT_EMBEDDING, _read_embedding),
        "/v1/rerank": ForwardedRoute(Capability.RERANK),
        "/v1/responses": ForwardedRoute(Capability.CHAT_GENERATION),
        "/v1/messages": ForwardedRoute(Capability.CHAT_GENERATION),
        "/v1/messages/count_tokens": ForwardedRoute(Capability.CHAT_GENERATION),
        "/v1/audio/transcriptions": ForwardedRoute(
            Capability.CHAT_GENERATION, read_form, ("audio",), "multipart/form-data"
        ),
        "/v1/images/generations": ForwardedRoute(Capability.IMAGE_GENERATION),
    }
)
