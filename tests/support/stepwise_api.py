"""The API server in memory, where a test decides in which order requests arrive and are answered.

Each request waits twice: before it is carried out, and before its answer is there. At either point
it may go on, be lost, or find that whoever sent it has died.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pumas_server.router.cluster_answers import PLAIN, AnswerRefused, Json, Unanswered
from support.api_store import ApiStore, split_path


@dataclass
class Step:
    """A request that waits."""

    method: str
    path: str
    done: bool
    """Whether it was carried out, and its answer is what waits."""
    future: asyncio.Future[None]
    task: asyncio.Task[object] | None

    def go(self) -> None:
        self.future.set_result(None)

    def lose(self) -> None:
        """The request, or its answer, never arrives."""
        self.future.set_exception(Unanswered("lost"))

    def die(self) -> None:
        """The sender is killed here."""
        assert self.task is not None
        self.task.cancel()


@dataclass
class StepwiseApi:
    """See the module."""

    store: ApiStore = field(default_factory=ApiStore)
    waiting: list[Step] = field(default_factory=list)
    at_once: bool = False
    """Let requests through as they come."""

    async def send(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        content_type: str = PLAIN,
        query: Mapping[str, str] | None = None,
    ) -> Json:
        await self._wait(method, path, done=False)
        if method == "GET" and not split_path(path)[1]:
            selector = (query or {}).get("labelSelector", "")
            status, answer = 200, {"items": self.store.listed(path, selector), "metadata": {}}
        else:
            raw = b"" if body is None else json.dumps(body).encode()
            status, answer = self.store.do(method, path, raw, content_type)
        await self._wait(method, path, done=True)
        if status >= 300:
            raise AnswerRefused(status, answer["reason"])
        return answer

    async def _wait(self, method: str, path: str, done: bool) -> None:
        if self.at_once:
            return
        future = asyncio.get_running_loop().create_future()
        step = Step(method, path, done, future, asyncio.current_task())
        self.waiting.append(step)
        try:
            await future
        finally:
            self.waiting.remove(step)

    async def settle(self) -> None:
        """Let everybody run who can."""
        for _ in range(20):
            await asyncio.sleep(0)
