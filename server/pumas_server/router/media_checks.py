"""Checks of media off the event loop: a few threads, tried for and never waited for.

Decoding is the one thing a router does that takes a while. Its threads are few, so that however
many images come, the processor is left to everybody's calls; a request that finds none free is
refused at once. A thread keeps its permit until it has really stopped.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from pumas_server.contract.errors import Code, ContractError
from pumas_server.contract.request import Operation
from pumas_server.media.request_media import CheckedClip, CheckedMedia, Media, check, gather
from pumas_server.media.stopping import Stopped
from pumas_server.router.niceness import step_back
from pumas_server.router.refusals import Reason, Refusals
from pumas_server.router.sessions import Session


class MediaChecks:
    """The media threads of one router process."""

    def __init__(self, permits: int, refusals: Refusals) -> None:
        self.permits = permits
        self._refusals = refusals
        self.busy = 0
        self._threads = ThreadPoolExecutor(permits, "media", initializer=step_back)

    async def check(self, session: Session, operation: Operation) -> tuple[CheckedClip, ...]:
        """Look at all media of a request; gives its clips as they go upstream.

        Raises `ContractError`: 400 or 413 for media that break a rule, 503 when every thread is
        at work; `SessionEnded` when the session ends meanwhile.
        """
        media = gather(operation)
        if not media:
            return ()
        return (await self._checked(session, media)).clips

    def close(self) -> None:
        """Let the threads end; one that works ends when its request does."""
        self._threads.shutdown(wait=False)

    async def _checked(self, session: Session, media: Media) -> CheckedMedia:
        if self.busy >= self.permits:
            self._refusals.count(Reason.MEDIA_CHECKS)
            raise ContractError(
                Code.CAPABILITY_UNAVAILABLE,
                f"all {self.permits} media checks that this router does at once are running",
            )
        self.busy += 1
        unwanted = threading.Event()
        work = asyncio.get_running_loop().run_in_executor(
            self._threads, _checked_or_none, media, unwanted
        )
        work.add_done_callback(self._done)
        try:
            with session.interruptible():
                checked = await asyncio.shield(work)
        finally:
            unwanted.set()
        if checked is None:
            raise RuntimeError("a media check stopped that nobody had stopped")
        return checked

    def _done(self, work: asyncio.Future[CheckedMedia | None]) -> None:
        self.busy -= 1
        if not work.cancelled():
            work.exception()  # told to whoever waits for it; nobody may, if its caller left


def _checked_or_none(media: Media, unwanted: threading.Event) -> CheckedMedia | None:
    try:
        return check(media, unwanted.is_set)
    except Stopped:
        return None
