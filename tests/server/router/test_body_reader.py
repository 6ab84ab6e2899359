"""The reader of long bodies as a program: one answer for each request, whatever the body is."""

from __future__ import annotations

import io
import json
import pickle
from dataclasses import dataclass
from typing import Any

from pumas_server.contract.errors import Code
from pumas_server.contract.request import Operation
from pumas_server.provider.address import Address
from pumas_server.router.body_reader import ANSWER, REQUEST, serve
from pumas_server.router.body_reading import Failed, Forwarded, Found, Reading, Refused, Typed
from support.routers import chat_operation


@dataclass(frozen=True)
class Breaks:
    """A reading with a fault of ours in it."""

    def read(self, raw: bytes) -> None:
        raise KeyError(len(raw))


def answers(*asked: tuple[Reading[object], bytes]) -> list[Any]:
    requests, got = io.BytesIO(), io.BytesIO()
    for reading, raw in asked:
        what = pickle.dumps(reading)
        requests.write(REQUEST.pack(len(what), len(raw)) + what + raw)
    requests.seek(0)
    serve(requests, got)
    got.seek(0)
    found = []
    while head := got.read(ANSWER.size):
        (size,) = ANSWER.unpack(head)
        found.append(pickle.loads(got.read(size)))
    return found


def test_each_request_has_its_answer() -> None:
    chat = Forwarded("/v1/chat/completions", "application/json")
    found, address, refused, failed, last = answers(
        (Typed(), json.dumps(chat_operation()).encode()),
        (chat, b'{"model":"m","stream":true}'),
        (Typed(), b'{"request_id":"r1"}'),
        (Breaks(), b"123"),
        (chat, b"[]"),
    )
    assert isinstance(found, Found)
    assert isinstance(found.value, Operation)
    assert address == Found(Address("m", True, 9, 12))
    assert isinstance(refused, Refused)
    assert (refused.code, refused.request_id) == (Code.INVALID_REQUEST, "r1")
    assert refused.as_error().message == refused.message
    assert failed == Failed("KeyError")
    assert isinstance(last, Refused)


def test_no_request_at_all() -> None:
    assert answers() == []
