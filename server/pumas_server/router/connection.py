"""A caller's connection: one request at a time, bounded in time and size from its first byte.

uvicorn reads a pipelined request ahead, stops reading, and from then on tells the loss of the
connection to that request alone: the one being answered would go on for nobody and keep its
permit. Here a request behind one that is not answered yet is passed over, and the connection
closes after the answer; its caller, who got no answer to it, may send it again (RFC 9112, 9.3.2).

A header has to end in time, and a body to come at a pace. Timers are made only for what did not
come whole at once, so a call whose request fits a segment makes none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from pumas_server.router.asgi import BODY_FAULT, CALLER, Scope
from pumas_server.router.awaited_header import AwaitedHeader
from pumas_server.router.body_watch import BodyWatch
from pumas_server.router.connection_phase import ConnectionPhase
from pumas_server.router.connection_refusal import (
    ConnectionRefusal,
    refuse_bad_http,
    refuse_connection,
    refuse_long_header,
    refuse_long_target,
    refuse_slow_header,
    render_refusal,
)
from pumas_server.router.connections import Connections
from pumas_server.router.deadline import Deadline
from pumas_server.router.header_bounds import MAX_HEADER_BYTES, MAX_TARGET_BYTES
from pumas_server.router.refusals import Reason

#: How long a refused caller has to read why, once it was told.
_REFUSED_SECONDS = 1.0

#: How long nothing is read after something that nobody wants, a bad request too: a flood of it
#: comes at the senders' cost. In `linger_seconds` a body of the greatest length still comes to its
#: end.
_UNWANTED_SECONDS = 0.01


class CallerConnection(HttpToolsProtocol):
    """uvicorn's protocol without pipelining, and with bounds."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        connections: Connections,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._all = connections
        self._phase = ConnectionPhase.BETWEEN
        self._header = AwaitedHeader()
        self._watch = BodyWatch(
            connections.body_seconds,
            connections.body_rate,
            paused=lambda: self.flow.read_paused,
            late=self._body_late,
        )
        self._deadline = Deadline(self.loop)
        self._beyond = False
        self._gone = False
        self._tired = False
        self._told: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """It opened. Beyond as many as may be it is told so, and closed."""
        self._all.open += 1
        super().connection_made(transport)
        if not self._all.full:
            self._await_request()
        elif self._all.may_tell:
            self._beyond = True
            self._all.beyond += 1
            self._refuse(refuse_connection(self._all.most))
        else:
            self._phase = ConnectionPhase.DEAF
            self._all.refusals.count(Reason.CONNECTIONS)
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone, and nothing of it stays."""
        self._gone = True
        if self._told is not None:
            self._told()
        self._all.open -= 1
        self._all.beyond -= self._beyond
        self._deadline.clear()
        self._unset_keepalive_if_required()
        self._watch.close()
        super().connection_lost(exc)

    def when_gone(self, told: Callable[[], None] | None) -> None:
        """See `Caller`."""
        self._told = told
        if told is None:
            return
        if self._gone:
            told()
        else:
            # A long body's last piece may have stopped the reading, which alone tells of its end.
            self.flow.resume_reading()

    def rest(self) -> None:
        """See `Caller`."""
        self._tired = True

    def break_off(self) -> None:
        """See `Caller`."""
        # To uvicorn it is as if the caller had left: an answer that ends here is no error.
        self.cycle.disconnected = True
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Some bytes of a request, of several, or of none."""
        if self._phase is ConnectionPhase.DEAF:
            self._rest()
            return
        self._unset_keepalive_if_required()
        self._header.came(len(data))
        if self._phase is ConnectionPhase.BETWEEN:
            self._phase = ConnectionPhase.HEADER
            self._header.expect()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # It is answered as if it had not asked; the parser reads nothing after it.
            if self._phase is not ConnectionPhase.DEAF:
                self._close_after_answer()
        except httptools.HttpParserError:
            self._misread()
        else:
            self._look(len(data))

    def _look(self, count: int) -> None:
        """What there is to wait for, now that some bytes were read."""
        match self._phase:
            case ConnectionPhase.HEADER:
                if not self._header.lasts():
                    self._refuse(refuse_long_header(MAX_HEADER_BYTES))
                elif not self._deadline.is_set:
                    self._deadline.set(self._all.header_seconds, self._header_late)
            case ConnectionPhase.BODY if self._idle:
                self._rest()
            case ConnectionPhase.BODY:
                self._watch.came(count)
            case ConnectionPhase.BETWEEN if self._idle:
                self._await_request()
            case _:
                pass

    @property
    def _idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _rest(self) -> None:
        """Read nothing for a moment."""
        self.flow.pause_reading()
        self.loop.call_later(_UNWANTED_SECONDS, self._read_on)

    def _read_on(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def _await_request(self) -> None:
        if self.timeout_keep_alive_task is None and not self.transport.is_closing():
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    # What the parser finds.

    def on_message_begin(self) -> None:
        """A request begins."""
        if self._phase is ConnectionPhase.DEAF:
            return
        if not self._idle:
            self._close_after_answer()
            return
        if self._phase is ConnectionPhase.BETWEEN:
            # Behind one that was read whole and answered in the same segment.
            self._phase = ConnectionPhase.HEADER
            self._header.expect()
        self._header.began = True
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Some of its target."""
        if self._phase is ConnectionPhase.DEAF:
            return
        super().on_url(url)
        if len(self.url) > MAX_TARGET_BYTES:
            self._refuse(refuse_long_target(MAX_TARGET_BYTES))

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of its header."""
        if self._phase is not ConnectionPhase.DEAF:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Its header is whole."""
        if self._phase is not ConnectionPhase.HEADER:
            return
        if not self._header.fits(self.url, self.headers):
            self._refuse(refuse_long_header(MAX_HEADER_BYTES))
            return
        self._deadline.clear()
        super().on_headers_complete()
        cast("Scope", self.scope)[CALLER] = self
        self._phase = ConnectionPhase.BODY

    def on_body(self, body: bytes) -> None:
        """Some of its body."""
        if self._phase is ConnectionPhase.BODY:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """It is whole."""
        if self._phase is not ConnectionPhase.BODY:
            return
        self._phase = ConnectionPhase.BETWEEN
        self._watch.ended()
        self._deadline.clear()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Its answer is whole; of its body there may be more to come, which nobody reads."""
        super().on_response_complete()
        if self._tired:
            self._tired = False
            self._rest()
        if self._phase is ConnectionPhase.BODY and not self.transport.is_closing():
            self._deadline.set(self._all.linger_seconds, self.transport.abort)

    def _misread(self) -> None:
        """What came is no HTTP."""
        match self._phase:
            case ConnectionPhase.DEAF:
                return
            case ConnectionPhase.BODY if self._idle or self.cycle.response_started:
                self.transport.abort()
            case ConnectionPhase.BODY:
                self._all.refusals.count(Reason.BAD_HTTP)
                self._end_body("the framing of its body is broken")
            case _ if not self._idle:
                self._close_after_answer()
            case _:
                self._refuse(refuse_bad_http())

    # What takes too long.

    def _body_late(self) -> None:
        self._all.refusals.count(Reason.BODY_TIMEOUT)
        if self._idle or self.cycle.response_started:
            self.transport.abort()
        else:
            self._end_body(
                f"its body came too slowly; after {self._all.body_seconds:g} s without a byte it is"
                f" given up, and below {self._all.body_rate:g} bytes a second"
            )

    def _header_late(self) -> None:
        if not self._idle:
            self._close_after_answer()
        elif self._header.began:
            self._refuse(refuse_slow_header(self._all.header_seconds))
        else:
            self.transport.close()

    # How it ends.

    def _end_body(self, sentence: str) -> None:
        """Have whoever reads the body answer that there is no more of it."""
        cast("Scope", self.scope)[BODY_FAULT] = sentence
        self._close_after_answer()
        self.cycle.message_event.set()

    def _close_after_answer(self) -> None:
        self._phase = ConnectionPhase.DEAF
        self._watch.ended()
        self.cycle.keep_alive = False

    def _refuse(self, refusal: ConnectionRefusal) -> None:
        """Say why and close; what still comes is thrown away meanwhile.

        Closing at once would reset the connection, and the caller lose what it was told.
        """
        self._phase = ConnectionPhase.DEAF
        self._all.refusals.count(refusal.reason)
        if self.transport.is_closing():
            return
        target = self.url if self._header.began else b""
        self.transport.write(render_refusal(refusal, target, self._all.problem_pages))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._deadline.set(_REFUSED_SECONDS, self.transport.abort)
