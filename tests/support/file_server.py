"""An HTTP server for files that can do what real ones do: ranges, ETags, cuts, refusals, silence."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class FileServer:
    """What is served at every path, and how. May be changed while it runs."""

    content: bytes
    port: int = 0
    etag: str = '"v1"'
    ranges: bool = True
    says_length: bool = True
    statuses: list[int] = field(default_factory=list)
    """Answered, one after the other, before the file is."""
    cuts: list[int] = field(default_factory=list)
    """The next answers break off after so many bytes."""
    location: str = ""
    """With it, `/old` is a redirect there."""
    wrong_range: bool = False
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Path and range of each request."""

    @property
    def url(self) -> str:
        """The file's."""
        return f"http://127.0.0.1:{self.port}/deep/w.gguf"


@contextmanager
def file_server(content: bytes, **how: object) -> Iterator[FileServer]:
    """A server on the loopback."""
    served = FileServer(content, **how)  # type: ignore[arg-type]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append((self.path, self.headers.get("Range", "")))
            if self.path == "/old":
                self.send_response(302)
                self.send_header("Location", served.location)
                self.end_headers()
            elif served.statuses:
                self.send_error(served.statuses.pop(0))
            else:
                self._send()

        def _send(self) -> None:
            start = self._start()
            body, whole = served.content[start or 0 :], len(served.content)
            self.send_response(200 if start is None else 206)
            if start is not None:
                told = start + 1 if served.wrong_range else start
                self.send_header("Content-Range", f"bytes {told}-{whole - 1}/{whole}")
            if served.says_length:
                self.send_header("Content-Length", str(len(body)))
            if served.etag:
                self.send_header("ETag", served.etag)
            self.end_headers()
            self.wfile.write(body[: served.cuts.pop(0)] if served.cuts else body)

        def _start(self) -> int | None:
            asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            known = self.headers.get("If-Range", served.etag)
            return int(asked[1]) if asked and served.ranges and known == served.etag else None

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

        def handle(self) -> None:
            with suppress(BrokenPipeError, ConnectionResetError):  # a client may have read enough
                super().handle()

    class Server(ThreadingHTTPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        served.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()
