"""Calls of a router from the machine of the tests, again and again: `make cluster`'s alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

PAUSE_SECONDS = 0.2


@contextmanager
def asking(base: str, path: str, body: dict[str, Any]) -> Iterator[list[int]]:
    """Call while the block lasts; the statuses so far."""
    over = threading.Event()
    answers: list[int] = []

    def call() -> None:
        with httpx.Client(base_url=base, trust_env=False, timeout=120) as client:
            while not over.wait(PAUSE_SECONDS):
                answers.append(client.post(path, json=body).status_code)

    caller = threading.Thread(target=call, daemon=True)
    caller.start()
    try:
        yield answers
    finally:
        over.set()
        caller.join()
