"""The library: its settings, its server's application, its log, its opinion of a body.

Nothing here is imported before the listener is open: the import takes as long as a small model.
"""

from __future__ import annotations

import ctypes
import io
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pumas_server.worker.legible import legible
from pumas_server.worker.llama_cpp_python.bodies import CHAT, COMPLETIONS, EMBEDDINGS, Unfit
from pumas_server.worker.own_engine import Unservable, seconds

LINE_LIMIT = 1_000
Application = Callable[[Any, Any, Any], Awaitable[None]]
#: Levels of ggml's log. The library's own table is of another order, and hides its errors.
LEVELS = {0: "I", 1: "D", 2: "I", 3: "W", 4: "E"}
CONTINUED = 5


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model that serves."""

    app: Application
    """The library's own ASGI application."""
    context_tokens: int
    embedding_width: int
    check: Callable[[str, Mapping[str, object]], None]
    """Raises `Unfit` for a body of a path that the library would fail on."""


class Log:
    """The engine's log: what ggml and the library say, in lines of an engine's form.

    It writes to the standard error that the process began with: the library closes that while it
    loads. No text of a file or a caller can begin a line of its own.
    """

    def __init__(self) -> None:
        self._output = os.dup(2)
        self._level = "I"
        self._rest = ""

    def take(self, level: int, text: bytes, _: object) -> None:
        """ggml's callback."""
        if level != CONTINUED:
            self._level = LEVELS.get(level, "I")
        *lines, self._rest = (self._rest + text.decode("utf-8", "replace")).split("\n")
        if self._level != "D":
            for line in lines:
                self.write(self._level, line)

    def write(self, level: str, line: str) -> None:
        """One line."""
        if line.strip():
            told = f"{seconds():.3f} {level} {legible(line, LINE_LIMIT)}\n"
            os.write(self._output, told.encode("utf-8", "replace"))


class PythonOutput(io.TextIOBase):
    """Standard output and error of the library's Python, as lines of the log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._rest = ""

    def write(self, text: str) -> int:
        """Take a piece of text."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._log.write("I", f"py: {line}")
        return len(text)


def load(settings: Mapping[str, object]) -> Loaded:
    """Load the model. Raises `Unservable` with the reason, as far as the library gives one."""
    # Its settings would come from here too.
    os.environ.pop("CONFIG_FILE", None)
    try:
        import llama_cpp
        from llama_cpp.server import app as server
        from llama_cpp.server.settings import ModelSettings, ServerSettings
    except ImportError as error:
        raise Unservable(
            f"llama-cpp-python's server lacks {error.name}: it comes with"
            " pip install '.[llama-cpp-python]' in a checkout"
        ) from None
    log = Log()
    callback = llama_cpp.llama_log_callback(log.take)
    llama_cpp.llama_log_set(callback, ctypes.c_void_p(0))
    sys.stdout = sys.stderr = PythonOutput(log)
    try:
        # `model_construct`: the library's own constructor reads variables such as `SEED` and
        # `CACHE` of the environment.
        app = server.create_app(
            server_settings=ServerSettings.model_construct(
                interrupt_requests=False, disable_ping_events=True
            ),
            model_settings=[ModelSettings.model_construct(**settings)],
        )
    except ValueError as error:
        # The reason itself stands in the log before; this names the step.
        raise Unservable(str(error)) from None
    except MemoryError:
        raise Unservable("there is not enough memory for the model") from None
    finally:
        # ggml goes on to call it for as long as the process lives.
        _KEPT.append(callback)
    llama = server._llama_proxy()
    if settings["embedding"]:
        _embed_whole(llama)
    return Loaded(app, llama.n_ctx(), llama.n_embd(), _checker())


_KEPT: list[object] = []


def _embed_whole(llama: Any) -> None:
    """Have vectors of unit length, and no text cut: the server asks for neither."""
    embed = llama.embed

    def whole(texts: object, return_count: bool = False) -> object:
        return embed(texts, normalize=True, truncate=False, return_count=return_count)

    llama.embed = whole


def _checker() -> Callable[[str, Mapping[str, object]], None]:
    from llama_cpp.server import types
    from pydantic import ValidationError

    kinds = {
        CHAT: types.CreateChatCompletionRequest,
        COMPLETIONS: types.CreateCompletionRequest,
        EMBEDDINGS: types.CreateEmbeddingRequest,
    }

    def check(path: str, body: Mapping[str, object]) -> None:
        try:
            read = kinds[path].model_validate(body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "the body"
            raise Unfit(f"{where}: {first['msg']}") from None
        if path == COMPLETIONS and isinstance(read.prompt, list) and len(read.prompt) != 1:
            raise Unfit("prompt is one text")
        if path == EMBEDDINGS and not read.input:
            raise Unfit("input is empty")
        if path != EMBEDDINGS and getattr(read, "logprobs", None):
            raise Unfit("logprobs are not told: they would take a number for each token of both")

    return check
