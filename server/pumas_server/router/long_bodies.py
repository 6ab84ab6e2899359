"""Reads bodies: short ones at once, long ones in a process of their own, one after the other.

Reading JSON holds the interpreter, whichever thread does it, and with it every call of the router.
In another process it holds up nobody; what comes back is short, or consists of few long strings.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from pumas_server.contract.errors import Code, ContractError
from pumas_server.contract.json_weight import is_light
from pumas_server.provider.address import Body
from pumas_server.router.body_reading import Failed, Found, Got, Reading, Refused
from pumas_server.router.growing_body import LONG_BYTES
from pumas_server.router.niceness import step_back
from pumas_server.router.reader_process import ReaderProcess
from pumas_server.router.refusals import Reason, Refusals
from pumas_server.router.sessions import Session


class LongBodies:
    """The reading of one router."""

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals
        self._process = ReaderProcess()
        self._thread = ThreadPoolExecutor(1, "long-bodies", initializer=step_back)

    async def read(
        self, session: Session, asked: Reading[Got], raw: Body, *, at_length: bool = False
    ) -> Got:
        """What the body holds. `at_length`: reading takes long, however short it is.

        Raises `ContractError`; `SessionEnded` when the session ends before a long one was read.
        """
        if isinstance(raw, bytes) and not at_length and is_light(raw, LONG_BYTES):
            return asked.read(raw)
        loop = asyncio.get_running_loop()
        with session.interruptible():
            answer = await loop.run_in_executor(self._thread, self._process.ask, asked, raw)
        match answer:
            case Found(value):
                return value
            case Refused():
                raise answer.as_error()
            case Failed(kind):
                raise RuntimeError(f"reading a long body failed: {kind}")
            case None if session.admitted:
                # Nothing to come back for: the provider did its part.
                raise RuntimeError("the process that reads long bodies ended")
            case None:
                self._refusals.count(Reason.BODY_READER)
                raise ContractError(
                    Code.CAPABILITY_UNAVAILABLE,
                    "the router's process that reads long bodies ended; there is a new one now",
                )

    def close(self) -> None:
        """End the process. A body that is being read is not waited for."""
        self._process.kill()
        self._thread.submit(self._process.end)
        self._thread.shutdown(wait=True)
