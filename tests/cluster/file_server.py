"""Serves the files of a folder inside the cluster, in all the ways that file servers have.

A file may lie in folders. How it comes stands in the path, so that tests which run side by side don't disturb each other:

    /plain/NAME             with length, ETag and ranges
    /no-ranges/NAME         always the whole file
    /no-length/NAME         the end of the connection is the end of the file
    /truncated/NAME         the file's first half, as if that were all
    /slow/BYTES/NAME        so many bytes a second
    /cut/BYTES/NAME         each connection breaks after so many bytes
    /status/CODE/NAME       that status
    /redirect/NAME          302 to /plain/NAME
    /switch/KEY/NAME        404 until somebody asked `PUT /switch/KEY`, and after `DELETE` again
    /hub/ANY/THING          as a mirror of the hub: one tiny chat model, whatever is asked for
    /asked/TEXT             (GET) which requests with TEXT in their path there were, as JSON

It runs in a pod of the tests, with Python and nothing else: `file_server.py FOLDER PORT`.
"""

from __future__ import annotations

import json
import re
import socket
import sys
import time
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FOLDER = Path(sys.argv[1]) if __name__ == "__main__" else Path()
BLOCK_BYTES = 1 << 16

switched_on: set[str] = set()
asked: list[dict[str, str]] = []


@dataclass(frozen=True)
class How:
    """How one file is sent."""

    ranges: bool = True
    says_length: bool = True
    share: float = 1.0
    bytes_a_second: float = 0.0
    cut: int = 0


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    def do_GET(self) -> None:
        asked.append({"path": self.path, "range": self.headers.get("Range", "")})
        way, _, rest = self.path.partition("?")[0].lstrip("/").partition("/")
        first, _, name = rest.partition("/")
        match way:
            case "healthz":
                self._answer(HTTPStatus.OK)
            case "asked":
                self._answer(HTTPStatus.OK, [each for each in asked[:-1] if rest in each["path"]])
            case "hub":
                self._send("tiny-chat.gguf", How())
            case "plain":
                self._send(rest, How())
            case "no-ranges":
                self._send(rest, How(ranges=False))
            case "no-length":
                self._send(rest, How(ranges=False, says_length=False))
            case "truncated":
                self._send(rest, How(share=0.5))
            case "slow":
                self._send(name, How(bytes_a_second=float(first)))
            case "cut":
                self._send(name, How(cut=int(first)))
            case "status":
                self._answer(HTTPStatus(int(first)))
            case "redirect":
                self.send_response(HTTPStatus.FOUND)
                self.send_header("Location", f"/plain/{rest}")
                self.send_header("Content-Length", "0")
                self.end_headers()
            case "switch" if first in switched_on:
                self._send(name, How())
            case _:
                self._answer(HTTPStatus.NOT_FOUND)

    def do_PUT(self) -> None:
        switched_on.add(self.path.removeprefix("/switch/"))
        self._answer(HTTPStatus.OK)

    def do_DELETE(self) -> None:
        switched_on.discard(self.path.removeprefix("/switch/"))
        self._answer(HTTPStatus.OK)

    def _answer(self, status: HTTPStatus, told: object = None) -> None:
        body = json.dumps(told).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _send(self, name: str, how: How) -> None:
        file = FOLDER.joinpath(*(part for part in Path(name).parts if part not in ("..", "/")))
        if not file.is_file():
            self._answer(HTTPStatus.NOT_FOUND)
            return
        content = file.read_bytes()
        content = content[: int(len(content) * how.share)]
        start = self._start(len(content)) if how.ranges else None
        self.send_response(HTTPStatus.OK if start is None else HTTPStatus.PARTIAL_CONTENT)
        if start is not None:
            end = len(content) - 1
            self.send_header("Content-Range", f"bytes {start}-{end}/{len(content)}")
        body = content[start or 0 :]
        if how.says_length:
            self.send_header("Content-Length", str(len(body)))
        if how.ranges:
            self.send_header("ETag", '"v1"')
        self.send_header("Connection", "close")
        self.end_headers()
        self._write(body, how)

    def _start(self, size: int) -> int | None:
        """The byte that was asked for, if it is there."""
        found = re.fullmatch(r"bytes=(\d+)-\d*", self.headers.get("Range", ""))
        if found is None or int(found[1]) >= size:
            return None
        return int(found[1])

    def _write(self, body: bytes, how: How) -> None:
        if how.cut and how.cut < len(body):
            self.wfile.write(body[: how.cut])
            return
        size = max(1, int(how.bytes_a_second / 10)) if how.bytes_a_second else BLOCK_BYTES
        for at in range(0, len(body), size):
            self.wfile.write(body[at : at + size])
            if how.bytes_a_second:
                time.sleep(size / how.bytes_a_second)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing: `/asked` tells."""


class Server(ThreadingHTTPServer):
    """On all addresses."""

    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone is nothing to speak of; anything else is."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


if __name__ == "__main__":
    with Server(("", int(sys.argv[2])), Handler) as server:
        print(f"{socket.gethostname()} serves {FOLDER}", flush=True)
        server.serve_forever()
