"""A folder over HTTP, as hubs and file servers give it, with what can go wrong on the way."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

BLOCK = 1 << 16


@dataclass
class FolderServer:
    """What is served, and how. May be changed while it runs."""

    folder: Path
    prefix: str = "/"
    """What stands before the names in the folder."""
    ranges: bool = True
    lengths: bool = True
    tags: bool = True
    breaks: dict[str, int] = field(default_factory=dict)
    """After how many bytes the next answer with a file breaks off."""
    before: Callable[[str, str], None] = lambda name, part: None
    """Called with the name and the range of each request before it is answered."""
    port: int = 0
    asked: list[str] = field(default_factory=list)
    """Targets as they came, each before it is answered."""
    given: Counter[str] = field(default_factory=Counter)
    """Bytes that were sent of each file."""

    @property
    def url(self) -> str:
        """The server's, with the prefix."""
        return f"http://127.0.0.1:{self.port}{self.prefix}"

    def names(self) -> list[str]:
        """Of the files that were asked for, each once, in the order of the alphabet."""
        return sorted({unquote(urlsplit(t).path).removeprefix(self.prefix) for t in self.asked})


@contextmanager
def folder_server(folder: Path, prefix: str = "/") -> Iterator[FolderServer]:
    """A server on the loopback."""
    served = FolderServer(folder, prefix)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(self.path)
            name = unquote(urlsplit(self.path).path).removeprefix(served.prefix)
            told = self.headers.get("Range", "")
            served.before(name, told)
            file = served.folder / name
            if not file.is_file():
                self.send_error(404)
                return
            self._send(name, file.read_bytes(), told)

        def _send(self, name: str, content: bytes, told: str) -> None:
            tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"' if served.tags else ""
            asked = re.fullmatch(r"bytes=(\d+)-", told) if served.ranges else None
            if self.headers.get("If-Range", tag) != tag:
                asked = None
            start = int(asked[1]) if asked else 0
            self.send_response(206 if asked else 200)
            if asked:
                self.send_header(
                    "Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}"
                )
            if served.lengths:
                self.send_header("Content-Length", str(len(content) - start))
            if tag:
                self.send_header("ETag", tag)
            self.end_headers()
            end = min(len(content), start + served.breaks.pop(name, len(content)))
            for at in range(start, end, BLOCK):
                self.wfile.write(content[at : min(at + BLOCK, end)])
                served.given[name] += min(at + BLOCK, end) - at

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
