"""A caller's connection: one request at a time, so that its loss is always seen.

uvicorn reads a pipelined request ahead, stops reading, and from then on tells the loss of the
connection to that request alone: the one being answered would go on for nobody and keep its
permit. Here a request behind one that is not answered yet is passed over, and the connection
closes after the answer; its caller, who got no answer to it, may send it again (RFC 9112, 9.3.2).
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class CallerConnection(HttpToolsProtocol):
    """uvicorn's protocol without pipelining."""

    _passing_over = False

    def on_message_begin(self) -> None:
        """A request begins."""
        self._passing_over = self.cycle is not None and not self.cycle.response_complete
        if self._passing_over:
            self.cycle.keep_alive = False
        else:
            super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Some of its target."""
        if not self._passing_over:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of its header."""
        if not self._passing_over:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Its header is whole."""
        if not self._passing_over:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Some of its body."""
        if not self._passing_over:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """It is whole."""
        if not self._passing_over:
            super().on_message_complete()
