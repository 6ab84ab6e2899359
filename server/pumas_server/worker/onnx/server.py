"""The engine's HTTP: the part of llama-server's dialect that embedders and rerankers need.

`/health` answers from the first moment on; everything else needs the key, and a loaded model. Plain
ASGI: an answer is bytes that a thread has made, and nothing between them and the socket is needed.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Awaitable
from functools import partial
from typing import TypeVar

import orjson

from pumas_server.worker.onnx.calls import Calls
from pumas_server.worker.onnx.fault import EngineFault
from pumas_server.worker.onnx.served import Handler, Served, Unfit
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

#: What engines of this dialect can do, each with the word for it.
WORK = {
    "/v1/embeddings": "embeddings",
    "/v1/rerank": "reranking",
    "/v1/images/generations": "image generation",
}
#: Behind a path of work: whether a body would be worked on, and no more.
CHECK = "/check"
Done = TypeVar("Done")


class EngineServer:
    """The ASGI application. Until `serve` it answers as one that loads."""

    def __init__(self, alias: str, key: str, slots: int, build: str) -> None:
        """`key` "" lets everybody in."""
        self._alias = alias
        self._key = key.encode()
        self._build = build
        self._calls = Calls(slots)
        self._served: Served | None = None

    def serve(self, served: Served) -> None:
        """Answer with this model from now on."""
        self._served = served

    @property
    def busy(self) -> int:
        """Slots at work."""
        return self._calls.busy

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise ValueError(f"no {scope['type']} is served here")
        try:
            status, body = 200, await self._answer(scope, receive)
        except CallerLeft:
            return
        except Refusal as refusal:
            status, body = refusal.status, refusal.body()
        await send_answer(send, scope, status, body, b"application/json; charset=utf-8")

    async def _answer(self, scope: Message, receive: Receive) -> bytes:
        path, method = scope["path"], scope["method"]
        if path in HEALTH:
            check_method(method, "GET", "HEAD")
            self._loaded()
            return b'{"status":"ok"}'
        check_key(scope, self._key)
        if path in WORK:
            check_method(method, "POST")
            return await self._work(path, scope, receive)
        if (asked := path.removesuffix(CHECK)) in WORK and path.endswith(CHECK):
            check_method(method, "POST")
            return await self._check(asked, scope, receive)
        tell = {"/v1/models": self._models, "/props": self._props, "/slots": self._slots}.get(path)
        if tell is None:
            raise Refusal(404, "File Not Found", "not_found_error")
        check_method(method, "GET", "HEAD")
        return orjson.dumps(tell(self._loaded()))

    def _loaded(self) -> Served:
        if self._served is None:
            raise loading()
        return self._served

    async def _work(self, path: str, scope: Message, receive: Receive) -> bytes:
        handler = self._loaded().handlers.get(path)
        if handler is None:
            raise Refusal(501, f"This server does not support {WORK[path]}", "not_supported_error")
        body = await read_body(scope, receive)
        return await _explained(
            self._calls.run(partial(self._carry_out, handler, body), _left(receive))
        )

    async def _check(self, path: str, scope: Message, receive: Receive) -> bytes:
        """Whether a call of `path` with this body would be carried out; it takes no slot."""
        check = self._loaded().checks.get(path)
        if check is None:
            raise Refusal(501, f"This server does not support {WORK[path]}", "not_supported_error")
        body = await read_body(scope, receive)
        await _explained(asyncio.to_thread(lambda: check(_read_object(body))))
        return b'{"fits":true}'

    def _carry_out(self, handler: Handler, body: bytes) -> bytes:
        """The whole call, on a thread of its own: reading a body of images takes time, too."""
        # An answer names the model as it was asked for, else by the alias.
        return handler({"model": self._alias, **_read_object(body)})

    def _models(self, served: Served) -> dict[str, object]:
        model = {
            "id": self._alias,
            "aliases": [self._alias],
            "object": "model",
            "created": 0,
            "owned_by": "onnxruntime",
            "architecture": {
                "input_modalities": served.input_modalities,
                "output_modalities": served.output_modalities,
            },
            "meta": {"n_embd": served.embedding_width, "n_ctx_train": served.context_tokens},
        }
        return {"object": "list", "data": [model]}

    def _props(self, served: Served) -> dict[str, object]:
        return {
            "build_info": self._build,
            "total_slots": self._calls.slots,
            "model_alias": self._alias,
            "device": served.device,
            "limits": [
                {"option": limit.option, "minimum": limit.minimum, "maximum": limit.maximum}
                for limit in served.limits
            ],
        }

    def _slots(self, served: Served) -> list[dict[str, object]]:
        busy = self.busy
        return [
            {"id": slot, "n_ctx": served.context_tokens, "is_processing": slot < busy}
            for slot in range(self._calls.slots)
        ]


async def _explained(work: Awaitable[Done]) -> Done:
    """The result of work on a body; what it raises, as `Refusal`."""
    try:
        return await work
    except Unfit as unfit:
        raise Refusal(400, str(unfit), INVALID) from None
    except EngineFault as fault:
        raise Refusal(500, str(fault), "server_error") from None
    except CallerLeft:
        raise
    except Exception as error:
        traceback.print_exception(error, file=sys.stderr)
        told = f"the engine failed: {type(error).__name__}"
        raise Refusal(500, told, "server_error") from None


def _read_object(body: bytes) -> dict[str, object]:
    try:
        value: object = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Unfit(f"the body is no JSON: {error.msg}") from None
    if not isinstance(value, dict):
        raise Unfit("the body must be a JSON object")
    return value


async def _left(receive: Receive) -> None:
    """Wait until the caller is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass  # uvicorn waits within `receive` when there is no more of a body
