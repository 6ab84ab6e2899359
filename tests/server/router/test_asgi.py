"""Reading a body: a long one is read by turns, whatever it is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pumas_server.contract.errors import ContractError
from pumas_server.router import asgi
from pumas_server.router.admission import BufferBudget
from pumas_server.router.sessions import SessionEnded, Sessions
from pumas_server.router.turns import Turns

PIECE = b"x" * 262_144


class Body:
    """A body whose pieces are all there; how many times the loop looked around before each."""

    def __init__(self, *pieces: bytes, whole: bool = True) -> None:
        self._left = list(pieces)
        self._whole = whole
        self.looks: list[int] = []
        self._looked = 0

    async def receive(self) -> dict[str, Any]:
        self.looks.append(self._looked)
        if not self._left:
            return {"type": "http.disconnect"}
        piece = self._left.pop(0)
        return {
            "type": "http.request",
            "body": piece,
            "more_body": bool(self._left) or not self._whole,
        }

    async def read(self, limit: int = 2**28) -> bytes | memoryview:
        over = asyncio.Event()

        async def look() -> None:
            while not over.is_set():
                self._looked += 1
                await asyncio.sleep(0)

        looking = asyncio.create_task(look())
        try:
            with Sessions().open() as session, BufferBudget(limit).lease() as lease:
                return await asgi.read_body({"headers": []}, self.receive, session, lease)
        finally:
            over.set()
            await looking


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    fresh = Turns()
    monkeypatch.setattr(asgi, "_LONG_BODIES", fresh)
    return fresh


async def test_a_short_body_waits_for_nothing(turns: Turns) -> None:
    body = Body(b"ab", b"", b"c" * (asgi.PIECE_BYTES - 2), b"")
    assert await body.read() == b"ab" + b"c" * (asgi.PIECE_BYTES - 2)
    assert set(body.looks) == {0}


async def test_a_long_body_lets_the_loop_look_around_between_its_pieces(turns: Turns) -> None:
    body = Body(*[PIECE] * 10)
    assert await body.read() == PIECE * 10
    # The first piece tells that it is long; before each of the others the loop had its look.
    assert body.looks == sorted(set(body.looks))


@pytest.mark.parametrize(
    ("body", "limit", "fault"),
    [
        (Body(*[PIECE] * 6, whole=False), 2**28, SessionEnded),
        (Body(*[PIECE] * 6), len(PIECE) * 4, ContractError),
        (Body(*[PIECE] * 129), 2**28, ContractError),
    ],
    ids=["left", "no room", "too long"],
)
async def test_whatever_ends_it_takes_it_out_of_the_turns(
    turns: Turns, body: Body, limit: int, fault: type[Exception]
) -> None:
    with pytest.raises(fault):
        await body.read(limit)
    # Nobody is left to be waited for.
    with pytest.raises(StopIteration):
        turns.turn().send(None)
