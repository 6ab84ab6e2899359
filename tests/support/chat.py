"""A model that chats, and calls of it through a router, once or again and again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from support.client_pod import Answer, ClientPod
from support.models_server import ModelsServer
from support.release import served_model


def chat_model(server: ModelsServer, name: str, **spec: Any) -> dict[str, Any]:
    """A ServedModel of that name and alias, of the profile `lab`."""
    return served_model(name, source=server.source("tiny-chat.gguf"), **spec)


def chat(client: ClientPod, base: str, model: str) -> Answer:
    """One call of the OpenAI route of the router at `base`."""
    message = {"role": "user", "content": "hello"}
    asked = {"model": model, "max_tokens": 2, "messages": [message]}
    return client.ask(f"{base}/v1/chat/completions", asked)


@contextmanager
def chatting(client: ClientPod, base: str, model: str) -> Iterator[Future[list[Answer]]]:
    """Call again and again while the block lasts; afterwards all answers, or the first fault."""
    over = threading.Event()

    def ask() -> list[Answer]:
        answers = []
        while not over.is_set():
            answers.append(chat(client, base, model))
        return answers

    with ThreadPoolExecutor(1) as pool:
        answers = pool.submit(ask)
        try:
            yield answers
        finally:
            over.set()
