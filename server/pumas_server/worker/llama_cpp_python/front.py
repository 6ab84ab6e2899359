"""What stands before the library's application: the rest of llama-server's dialect. Plain ASGI.

`/health` answers from the first moment on; everything else needs the key and a loaded model. Only
the three calls of work reach the library. Its fault before the first byte of a stream is an answer
with a status, a fault after it an event of the stream that says so; it would cut both off.
"""

from __future__ import annotations

import json
import secrets

from pumas_server.worker.llama_cpp_python.bodies import (
    EMBEDDINGS,
    WORDS,
    Unfit,
    complete,
    in_base64,
)
from pumas_server.worker.llama_cpp_python.call import Call
from pumas_server.worker.llama_cpp_python.library import Loaded
from pumas_server.worker.own_surface import (
    HEALTH,
    INVALID,
    CallerLeft,
    Message,
    Receive,
    Refusal,
    Send,
    check_key,
    check_method,
    loading,
    read_body,
    send_answer,
)

ABSENT = {
    "/v1/rerank": "reranking",
    "/v1/systemone": "decisions",
    "/v1/images/generations": "image generation",
    "/v1/responses": "responses",
    "/v1/messages": "messages",
    "/v1/messages/count_tokens": "counting tokens",
    "/v1/audio/transcriptions": "transcription",
}


class Front:
    """The ASGI application. Until `serve` it answers as one that loads."""

    def __init__(self, alias: str, key: str, build: str, embeds: bool) -> None:
        """`key` "" lets everybody in."""
        self._alias = alias
        self._key = key.encode()
        self._build = build
        self._embeds = embeds
        self._loaded: Loaded | None = None
        self._open = 0
        """Calls that the library has not ended with; its one lock lets one of them compute."""

    def serve(self, loaded: Loaded) -> None:
        """Answer with this model from now on."""
        self._loaded = loaded

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise ValueError(f"no {scope['type']} is served here")
        try:
            told = await self._answer(scope, receive, send)
        except CallerLeft:
            return
        except Refusal as refusal:
            await _send_json(send, scope, refusal.status, refusal.body())
            return
        if told is not None:
            await _send_json(send, scope, 200, told)

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> bytes | None:
        """The body of an answer; None when it was sent."""
        path, method = scope["path"], scope["method"]
        if path in HEALTH:
            check_method(method, "GET", "HEAD")
            self._ready()
            return b'{"status":"ok"}'
        check_key(scope, self._key)
        if path in ABSENT:
            raise Refusal(
                501, f"This server does not support {ABSENT[path]}", "not_supported_error"
            )
        if path in WORDS:
            check_method(method, "POST")
            if (path == EMBEDDINGS) is not self._embeds:
                told = f"This server does not support {WORDS[path]}"
                raise Refusal(501, told, "not_supported_error")
            return await self._work(path, scope, receive, send)
        check_method(method, "GET", "HEAD")
        loaded = self._ready()
        match path:
            case "/v1/models":
                return _encode(self._models(loaded))
            case "/props":
                return _encode(self._props(loaded))
            case "/slots":
                return _encode([self._slot(loaded)])
            case "/metrics":
                return self._metrics()
            case _:
                raise Refusal(404, "File Not Found", "not_found_error")

    def _ready(self) -> Loaded:
        if self._loaded is None:
            raise loading()
        return self._loaded

    async def _work(self, path: str, scope: Message, receive: Receive, send: Send) -> bytes | None:
        loaded = self._ready()
        body = await _read_object(scope, receive)
        try:
            body = complete(path, body, secrets.randbelow(2**32))
            body.setdefault("model", self._alias)
            loaded.check(path, body)
        except Unfit as unfit:
            raise Refusal(400, str(unfit), INVALID) from None
        call = Call(_encode(body), receive, send, streams=body.get("stream") is True)
        self._open += 1
        try:
            answer = await call.run(loaded.app, scope)
        finally:
            self._open -= 1
        if answer is not None and path == EMBEDDINGS and body.get("encoding_format") == "base64":
            return _encode(in_base64(json.loads(answer)))
        return answer

    def _models(self, loaded: Loaded) -> dict[str, object]:
        outputs = ["embeddings"] if self._embeds else ["text"]
        model = {
            "id": self._alias,
            "aliases": [self._alias],
            "object": "model",
            "created": 0,
            "owned_by": "llama-cpp-python",
            "architecture": {"input_modalities": ["text"], "output_modalities": outputs},
            "meta": {"n_embd": loaded.embedding_width, "n_ctx": loaded.context_tokens},
        }
        return {"object": "list", "data": [model]}

    def _props(self, loaded: Loaded) -> dict[str, object]:
        return {
            "build_info": self._build,
            "total_slots": 1,
            "model_alias": self._alias,
            "default_generation_settings": {"n_ctx": loaded.context_tokens},
            "modalities": {"vision": False, "audio": False},
        }

    def _slot(self, loaded: Loaded) -> dict[str, object]:
        return {"id": 0, "n_ctx": loaded.context_tokens, "is_processing": self._open > 0}

    def _metrics(self) -> bytes:
        counts = {"processing": min(self._open, 1), "deferred": max(self._open - 1, 0)}
        lines = [
            f"# TYPE llamacpp:requests_{name} gauge\nllamacpp:requests_{name} {count}\n"
            for name, count in counts.items()
        ]
        return "".join(lines).encode()


def _encode(value: object) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


async def _send_json(send: Send, scope: Message, status: int, body: bytes) -> None:
    kind = b"text/plain; version=0.0.4" if scope["path"] == "/metrics" else b"application/json"
    await send_answer(send, scope, status, body, kind)


async def _read_object(scope: Message, receive: Receive) -> dict[str, object]:
    """The body of a call. Raises `Refusal`, and `CallerLeft`."""
    try:
        value: object = json.loads(await read_body(scope, receive))
    except (ValueError, RecursionError):
        raise Refusal(400, "the body is no JSON", INVALID) from None
    if not isinstance(value, dict):
        raise Refusal(400, "the body must be a JSON object", INVALID)
    return value
