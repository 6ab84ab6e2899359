"""A connection to a provider: one request, one answer, and then perhaps another.

What it reads is HTTP as httptools' parser (llhttp) has it, with the leniencies that clients are
commonly given. It is used again only after an answer that came whole, that said nothing of closing,
and behind which nothing came that nobody asked for.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from time import monotonic
from typing import cast

import httptools

from pumas_server.provider.address import Body
from pumas_server.router.upstream_answer import UpstreamAnswer

#: The longest field of a header or trailer, and how many there may be.
MAX_FIELD_BYTES = 8_190
MAX_FIELDS = 128
#: What may come without being a part of a body: a header, chunks' extensions, trailers.
MAX_FRAMING_BYTES = 65_536

#: Longer bodies are written in pieces, so that one caller's megabytes do not hold up the loop.
_WRITE_WHOLE_BYTES = 65_536

_SWITCHED = 101
#: Headers that say that an answer will come.
_INTERIM = frozenset(range(100, 200)) - {_SWITCHED}
#: Answers that have no body, whatever their header says.
_BODILESS = frozenset({_SWITCHED, 204, 304})

_BROKE = "the connection broke"
_NO_HTTP = "what came is no HTTP"


class UpstreamConnection(asyncio.Protocol):
    """One connection, open from the time it is made; `lost` is told when it is gone."""

    def __init__(self, lost: Callable[[UpstreamConnection], None]) -> None:
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._transport: asyncio.Transport | None = None
        self._answer: UpstreamAnswer | None = None
        self._fields: list[tuple[bytes, bytes]] = []
        self._framing_bytes = 0
        """Since the last byte of a body, or the last answer's end."""
        self._until_close = False
        """Whether the answer's body ends where the connection does."""
        self._reusable = True
        """Whether nothing that happened on it forbids another request."""
        self._writing: asyncio.Task[None] | None = None
        self._drained: asyncio.Future[None] | None = None
        self.uses = 0
        """Requests that it has carried."""
        self.rested = monotonic()
        """When it was made, or its last answer had come whole, by the monotonic clock."""

    # What a call does with it.

    @property
    def open(self) -> bool:
        """Whether a request can be written."""
        return self._transport is not None and not self._transport.is_closing()

    def ask(self, head: bytes, body: Body) -> UpstreamAnswer:
        """Send a request; its answer comes. The connection is open, and nobody else's."""
        transport = self._transport
        assert transport is not None, "a connection is asked once it is made"
        self.uses += 1
        self._reusable = False
        self._until_close = False
        self._fields, self._framing_bytes = [], 0
        answer = self._answer = UpstreamAnswer(self._loop, self._pause, self._resume)
        if len(body) <= _WRITE_WHOLE_BYTES:
            transport.write(head + body)
        else:
            transport.write(head)
            self._writing = self._loop.create_task(self._write(transport, body))
        return answer

    def leave(self) -> bool:
        """End the call; gives whether the connection can carry another. If not it is closed."""
        answer, self._answer = self._answer, None
        written = self._writing is None or self._writing.done()
        if self._writing is not None:
            self._writing.cancel()
            self._writing = None
        if self._reusable and written and self.open:
            if answer is not None and answer.paused:
                self._resume()
            return True
        self.close()
        return False

    def close(self) -> None:
        """Close it at once; what is still to be written is lost, and the provider knows."""
        if self._transport is not None:
            self._transport.abort()

    # What the event loop tells (asyncio.Protocol).

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast("asyncio.Transport", transport)
        made: socket.socket | None = transport.get_extra_info("socket")
        if made is not None:
            # A provider may think for hours; one whose machine is gone is noticed all the same.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        """Some bytes of the answer; or of none, which nobody may be given."""
        answer = self._answer
        if answer is None or answer.complete:
            self._spoil()
            return
        self._framing_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._reusable = False
            answer.fail(_NO_HTTP)
        if self._framing_bytes > MAX_FRAMING_BYTES and not answer.complete:
            answer.fail(_NO_HTTP)
            self._spoil()

    def eof_received(self) -> bool:
        """The provider's side has ended: so does ours."""
        answer = self._answer
        if answer is not None and answer.begun and self._until_close and not self._cut_off():
            answer.end()
        return False

    def _cut_off(self) -> bool:
        """Whether the end is not the provider's own: over TLS it says so (RFC 9112, 9.8)."""
        assert self._transport is not None, "what ends was made"
        tls: ssl.SSLObject | None = self._transport.get_extra_info("ssl_object")
        if tls is None:
            return False
        try:
            return tls.read(1) != b""
        except ssl.SSLZeroReturnError:
            return False
        except ssl.SSLError:
            return True

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone. A reset is never the end of a body."""
        self._reusable = False
        if self._answer is not None:
            self._answer.fail(_BROKE)
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        self._lost(self)

    def pause_writing(self) -> None:
        """Enough waits to be sent."""
        self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        """Most of it was."""
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    @property
    def writing_paused(self) -> bool:
        """Whether the provider does not read what is sent."""
        return self._drained is not None

    # What the parser finds (httptools).

    def on_message_begin(self) -> None:
        """An answer begins: the awaited one, or one behind it."""
        self._reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the header, or of the trailer, which nobody reads."""
        if len(name) + len(value) > MAX_FIELD_BYTES or len(self._fields) >= MAX_FIELDS:
            raise ValueError("a longer header than anybody needs")
        if name.endswith(b" "):
            # The parser lets it pass as a field of its own; whoever wrote it meant the one without,
            # and of a body's length it matters (RFC 9112, 5.1).
            raise ValueError("a field's name with a space behind it")
        self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The header is whole. One that says that an answer will come is no answer."""
        status = self._parser.get_status_code()
        fields, self._fields = self._fields, []
        answer = self._answer
        if answer is None or answer.complete or status in _INTERIM:
            return
        if any(n == b"transfer-encoding" and v.strip().lower() != b"chunked" for n, v in fields):
            raise ValueError("a coding of the body that nobody undoes")
        lengths = (b"content-length", b"transfer-encoding")
        framed = status in _BODILESS or any(name in lengths for name, _ in fields)
        self._until_close = not framed
        answer.begin(status, fields)

    def on_body(self, body: bytes) -> None:
        """Some of the body, or of one that nobody asked for: an interim's, or one behind it."""
        answer = self._answer
        if answer is not None and answer.begun and not answer.complete:
            self._framing_bytes = 0
            answer.feed(body)

    def on_message_complete(self) -> None:
        """The answer is whole."""
        answer = self._answer
        if answer is None or not answer.begun or answer.complete:
            return
        self._reusable = self._parser.should_keep_alive()
        self.rested = monotonic()
        answer.end()

    def _spoil(self) -> None:
        """Never use it again."""
        self._reusable = False
        self.close()

    def _pause(self) -> None:
        if self.open:
            cast("asyncio.Transport", self._transport).pause_reading()

    def _resume(self) -> None:
        if self.open:
            cast("asyncio.Transport", self._transport).resume_reading()

    async def _write(self, transport: asyncio.Transport, body: Body) -> None:
        view = memoryview(body)
        for start in range(0, len(view), _WRITE_WHOLE_BYTES):
            if transport.is_closing():
                return
            transport.write(view[start : start + _WRITE_WHOLE_BYTES])
            if self._drained is not None:
                await self._drained
