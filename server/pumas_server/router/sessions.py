"""Sessions: one call from its first byte to its last, and the events that end it (design *Stop*).

A session knows whether it was admitted (the marker) and why it was ended. `end` is a plain call
that may come from anywhere on the loop: a caller that left, a model that stopped, a shutdown. It
interrupts the session only where it waits for a provider; a session that is blocked on its own
caller is told at its next poll, and keeps transport and permit until then.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from types import TracebackType

from pumas_server.contract.errors import Code, ContractError, Outcome


class EndReason(Enum):
    """Why a session was ended from outside; the value is the reason in a sentence."""

    SHUTDOWN = "the router is shutting down"
    STOPPED = "the model was stopped"
    CALLER_GONE = "the caller left"


class SessionEnded(Exception):
    """Raised inside a session where it waits or polls, once it has been ended."""

    def __init__(self, reason: EndReason) -> None:
        self.reason = reason
        super().__init__(reason.value)

    def as_error(self) -> ContractError:
        """What the caller is told, if it is still there."""
        return ContractError(Code.TRANSPORT_LOST, self.reason.value)


class Session:
    """One call. `admitted` is the marker: set right before a provider can see a byte."""

    __slots__ = ("_interrupted", "_loop", "_waiting", "admitted", "ended", "model_uid")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """`loop` is the one that it runs on, which is cheaper than to look for it each time."""
        self._loop = loop
        self.model_uid: str | None = None
        self.admitted = False
        self.ended: EndReason | None = None
        self._waiting: asyncio.Task[object] | None = None
        self._interrupted = False

    @property
    def outcome(self) -> Outcome:
        """What a failure of this session means now. The marker alone decides."""
        return Outcome.UNKNOWN if self.admitted else Outcome.NOT_ADMITTED

    def end(self, reason: EndReason) -> None:
        """End the session. The first reason stays."""
        if self.ended is None:
            self.ended = reason
        if self._waiting is not None and not self._interrupted:
            self._interrupted = True
            self._waiting.cancel()

    def poll(self) -> None:
        """Raise `SessionEnded` if the session was ended."""
        if self.ended is not None:
            raise SessionEnded(self.ended)

    def interruptible(self) -> Interruptible:
        """A block in which `end` interrupts the waiting and raises `SessionEnded`."""
        return Interruptible(self)


class Interruptible:
    """See `Session.interruptible`. A class and not a generator: it runs once per chunk."""

    __slots__ = ("_session",)

    def __init__(self, session: Session) -> None:
        self._session = session

    def __enter__(self) -> None:
        session = self._session
        session.poll()
        session._waiting = asyncio.current_task(session._loop)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        session = self._session
        task, session._waiting = session._waiting, None
        if session._interrupted:
            session._interrupted = False
            # Our own cancellation is taken back; one from outside on top of it still counts.
            if task is not None and task.uncancel() == 0 and session.ended is not None:
                raise SessionEnded(session.ended) from None


class OpenSession:
    """See `Sessions.open`. A class and not a generator: it runs once per call."""

    __slots__ = ("_session", "_sessions")

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def __enter__(self) -> Session:
        self._session = self._sessions.begin()
        return self._session

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._sessions.finish(self._session)


class Sessions:
    """All sessions of the process, and the two events that end many."""

    def __init__(self) -> None:
        self._live: set[Session] = set()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._live)

    def open(self) -> OpenSession:
        """A block with a session for one call; after `shutdown` it is born ended."""
        return OpenSession(self)

    def begin(self) -> Session:
        """A session that is open until it is given to `finish`."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        session = Session(self._loop)
        if self._closed:
            session.end(EndReason.SHUTDOWN)
        self._live.add(session)
        self._idle.clear()
        return session

    def finish(self, session: Session) -> None:
        """The call is over, whatever ended it."""
        self._live.discard(session)
        if not self._live:
            self._idle.set()

    def models(self) -> set[str]:
        """The uids of the models that sessions are about."""
        return {session.model_uid for session in self._live if session.model_uid is not None}

    async def until_idle(self) -> None:
        """Return when no session is open."""
        await self._idle.wait()

    def stop(self, model_uid: str) -> None:
        """End every session of one model: it was deleted, or its drain is over."""
        for session in tuple(self._live):
            if session.model_uid == model_uid:
                session.end(EndReason.STOPPED)

    def shutdown(self) -> None:
        """End every session, and every one that is opened from now on."""
        self._closed = True
        for session in tuple(self._live):
            session.end(EndReason.SHUTDOWN)
