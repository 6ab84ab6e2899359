"""Asks an engine of ours whether an input fits, where only the engine can tell.

Tokens over a stated limit, or an image's size between two that a pipeline makes, are faults of the
request, to be told before it is admitted, as every other limit is. The question has no effect and
makes nothing admitted. It is asked only of an engine that states such limits, and only where they
may be broken: a text longer than they are, an image. Without an answer the call goes on, and the
engine itself decides.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from unicodedata import normalize

from pumas_server.contract.descriptors import Descriptor
from pumas_server.contract.errors import invalid
from pumas_server.contract.inputs import (
    AnyInput,
    ContentBatchInput,
    RerankInput,
    TextBatchInput,
    TextInput,
)
from pumas_server.contract.parts import TextPart
from pumas_server.contract.redaction import redact_foreign
from pumas_server.contract.request import Operation
from pumas_server.contract.words import Capability
from pumas_server.provider.dialect import JsonCall
from pumas_server.router.catalog_row import Row
from pumas_server.router.sessions import Session
from pumas_server.router.upstream import Upstream

#: What an engine answers the question at, below the path of the call itself.
CHECK = "/check"
_LIMIT = "input_tokens"
#: Tokens that stand around a text and have none of its bytes.
SPECIAL_TOKENS = 8


class Preflight:
    """The questions of one router process."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream

    async def check(
        self, session: Session, row: Row, operation: Operation, descriptor: Descriptor, call: object
    ) -> None:
        """Raise `ContractError` (invalid_request) for an input that the engine would refuse."""
        if row.external or not row.targets or not isinstance(call, JsonCall):
            return
        if not _may_not_fit(operation, descriptor):
            return
        answer = await self._upstream.ask(session, row.targets[0], call.path + CHECK, call.body)
        if answer is not None and answer[0] == HTTPStatus.BAD_REQUEST:
            raise invalid(_reason(answer[1]))


def _may_not_fit(operation: Operation, descriptor: Descriptor) -> bool:
    if descriptor.capability is Capability.IMAGE_GENERATION:
        return True
    limit = next((b.maximum for b in descriptor.option_bounds if b.option == _LIMIT), None)
    return limit is not None and longest_text(operation.input) + SPECIAL_TOKENS > limit


def longest_text(source: AnyInput) -> int:
    """Bytes of the longest text that becomes one input: as many tokens it may be at the most.

    Of whatever form of it a tokenizer cuts up: one letter may stand for eighteen.
    """
    match source:
        case TextInput(text=text):
            texts = [text]
        case TextBatchInput(texts=batch):
            texts = batch
        case RerankInput(query=query, documents=documents):
            texts = [query + document for document in documents]
        case ContentBatchInput(items=items):
            texts = [
                "".join(part.text for part in item.parts if isinstance(part, TextPart))
                for item in items
            ]
        case _:
            texts = []
    return max(map(_longest_form, texts), default=0)


def _longest_form(text: str) -> int:
    if text.isascii():
        return len(text)
    # Letters are taken apart or not: one form is longer here and the other there, hence the sum.
    return len(text.encode()) + len(normalize("NFKD", text).encode())


def _reason(body: bytes) -> str:
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = None
    if isinstance(message, str):
        return redact_foreign(message)
    return "the engine does not take this input"
