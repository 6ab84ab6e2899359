"""A server that answers as Ollama's OpenAI routes do: the stand-in for one on this machine.

It has two models; the one that answers is `tiny:latest`, which also goes by `tiny`. What is particular to such a server:
names carry tags, every delta repeats the role, a thinking model's thoughts come in `reasoning`, the
usage comes in a last chunk without choices (and only when asked for), unknown routes answer in plain
text, and a stream always ends in `[DONE]`. Every POST is kept as it came.
"""

from __future__ import annotations

import base64
import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "tiny:latest"
WORDS = ("Hello", " there", " \N{SLIGHTLY SMILING FACE}")
VECTORS = ([0.6, -0.8, 0.0, 0.0], [3.0, 4.0, 12.0, 84.0])
_STAMPED = {"created": 1_796_000_000, "model": MODEL, "system_fingerprint": "fp_ollama"}
_USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}


@dataclass
class OllamaLike:
    """A running one."""

    url: str
    posts: list[tuple[str, bytes]] = field(default_factory=list)
    """Path and body of every POST, in order."""


@contextmanager
def ollama_like() -> Iterator[OllamaLike]:
    """Serve on a free port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    running = OllamaLike(f"http://127.0.0.1:{server.server_port}")
    server.running = running  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 5

    def do_GET(self) -> None:
        if self.path != "/v1/models":
            return self._whole(404, b"404 page not found", "text/plain")
        told = {"object": "model", "created": 1_796_000_000, "owned_by": "library"}
        self._json(200, {"object": "list", "data": [{"id": n, **told} for n in (MODEL, "big:70b")]})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.running.posts.append((self.path, body))  # type: ignore[attr-defined]
        asked = json.loads(body)
        match self.path:
            case "/v1/chat/completions" | "/v1/completions" | "/v1/embeddings" if asked[
                "model"
            ] not in ("tiny", MODEL):
                message = f'model "{asked["model"]}" not found, try pulling it first'
                told = {"message": message, "type": "not_found_error", "param": None, "code": None}
                self._json(404, {"error": told})
            case "/v1/chat/completions" if asked.get("stream"):
                self._stream(asked, "chat.completion.chunk", _chat_choice)
            case "/v1/completions" if asked.get("stream"):
                self._stream(asked, "text_completion", _text_choice)
            case "/v1/chat/completions":
                message = {"role": "assistant", "content": "".join(WORDS)}
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                self._json(200, _answer("chat.completion", [choice], usage=_USAGE))
            case "/v1/completions":
                choice = {"index": 0, "text": "".join(WORDS), "finish_reason": "stop"}
                self._json(200, _answer("text_completion", [choice], usage=_USAGE))
            case "/v1/embeddings":
                self._json(200, _embeddings(asked))
            case _:
                self._whole(404, b"404 page not found", "text/plain")

    def _stream(self, asked: dict[str, Any], kind: str, choice_of: Any) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        chunks = [_answer(kind, [choice_of(word, None)]) for word in WORDS]
        if kind.startswith("chat"):
            thought = _chat_choice("", None)
            thought["delta"]["reasoning"] = "They greet me."
            chunks.insert(0, _answer(kind, [thought]))
        chunks.append(_answer(kind, [choice_of("", "stop")]))
        if asked.get("stream_options", {}).get("include_usage"):
            chunks.append(_answer(kind, [], usage=_USAGE))
        for data in [*map(json.dumps, chunks), "[DONE]"]:
            event = f"data: {data}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
        self.wfile.write(b"0\r\n\r\n")

    def _json(self, status: int, body: dict[str, Any]) -> None:
        self._whole(status, json.dumps(body).encode(), "application/json")

    def _whole(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the posts are kept."""


def _answer(kind: str, choices: list[dict[str, Any]], **members: Any) -> dict[str, Any]:
    return {"id": "chatcmpl-123", "object": kind, **_STAMPED, "choices": choices, **members}


def _chat_choice(word: str, finish: str | None) -> dict[str, Any]:
    delta = {"role": "assistant", "content": word}
    return {"index": 0, "delta": delta, "finish_reason": finish}


def _text_choice(word: str, finish: str | None) -> dict[str, Any]:
    return {"index": 0, "text": word, "finish_reason": finish}


def _embeddings(asked: dict[str, Any]) -> dict[str, Any]:
    inputs = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
    vectors: list[Any] = list(VECTORS[: len(inputs)])
    if asked.get("encoding_format") == "base64":
        vectors = [base64.b64encode(struct.pack(f"<{len(v)}f", *v)).decode() for v in vectors]
    data = [{"object": "embedding", "embedding": v, "index": i} for i, v in enumerate(vectors)]
    usage = {"prompt_tokens": 4, "total_tokens": 4}
    return {"object": "list", "data": data, "model": MODEL, "usage": usage}
