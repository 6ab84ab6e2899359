"""One router for calls of every kind before a provider that can break each answer in its own way.

Many broken answers run at once: every call carries a marker in its text, and the provider finds by
it what to answer. However a call ended, it is boiled down to one `Told`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from pumas_server.router import workers
from pumas_server.router.settings import RouterSettings
from support.calls import REQUEST_ID, SAID, Call, Framing, raw_answer
from support.routers import TEST_SETTINGS, RunningRouter, external, records, running_router
from support.upstream import Conversation, Script, ScriptedUpstream

OK = "ok"
BROKEN = "broken"
"""The caller's connection ended inside the answer, which is how an OpenAI route tells a fault."""

_DECIDER = {"input_modalities": ["text"], "output_modalities": ["decisions"]}
_LISTING = {
    "object": "list",
    "data": [{"id": "served"}, {"id": "decider", "architecture": _DECIDER}],
}
_MARKER = re.compile(rb"marker-(\w+)")


@dataclass(frozen=True, slots=True)
class Told:
    """What a caller was told of its call."""

    status: int
    code: str
    """`OK`, `BROKEN`, or the error's; empty for an error that names none."""
    outcome: str = ""
    message: str = ""
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


async def told(running: RunningRouter, call: Call, body: bytes) -> Told:
    """Make a call. Fails on an answer that has no shape of ours."""
    headers = {"content-type": "application/json"}
    async with running.client.post(call.path, data=body, headers=headers) as answer:
        try:
            raw = await answer.read()
        except aiohttp.ClientPayloadError:
            assert not call.operation, "an operation never ends broken"
            return Told(answer.status, BROKEN)
        if 200 <= answer.status < 300:
            return _told_of_success(call, answer, raw)
        outcome = answer.headers["x-pumas-outcome"]
        if outcome == "unknown":
            assert answer.headers["x-should-retry"] == "false"
        error = json.loads(raw)["error"]
        if call.operation:
            assert json.loads(raw) == {
                "contract_version": 1,
                "request_id": REQUEST_ID,
                "error": {"code": error["code"], "outcome": outcome, "message": error["message"]},
            }
        code, message = error.get("code") or "", error["message"]
        return Told(answer.status, code, outcome, message, raw, answer.headers)


def _told_of_success(call: Call, answer: aiohttp.ClientResponse, raw: bytes) -> Told:
    if not call.operation:
        return Told(answer.status, OK, "succeeded", body=raw, headers=answer.headers)
    assert answer.status == 200
    if call.streamed:
        return _told_by_records(raw)
    assert json.loads(raw) == {
        "contract_version": 1,
        "request_id": REQUEST_ID,
        "result": call.result,
    }
    return Told(200, OK, "succeeded", body=raw)


def _told_by_records(raw: bytes) -> Told:
    (first, _), *between, (last, end) = records(raw)
    assert first == "started"
    assert {kind for kind, _ in between} <= {"delta"}
    text = "".join(delta["text"] for _, delta in between)
    if last == "completed":
        assert (text, end["finish_reason"]) == (SAID, "stop")
        return Told(200, OK, "succeeded", body=raw)
    assert last == "failed"
    assert SAID.startswith(text)
    return Told(200, end["error"]["code"], end["error"]["outcome"], end["error"]["message"], raw)


def sends(raw: bytes, *, then_cut: bool = False) -> Script:
    """A provider that sends this and keeps the connection, or ends it."""

    async def script(talk: Conversation) -> None:
        await talk.send(raw)
        if then_cut:
            talk.cut()

    return script


@dataclass
class Bench:
    """A router with a model for every kind of call, all on one provider scripted by marker."""

    running: RunningRouter
    upstream: ScriptedUpstream
    provider: AsyncExitStack
    """Closing it ends the provider."""
    scripts: dict[str, Script] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    """Requests that reached the provider, by marker."""

    async def answer(self, talk: Conversation) -> None:
        """The provider's one script."""
        found = _MARKER.search(talk.request.body)
        assert found is not None
        marker = found[1].decode()
        self.counts[marker] += 1
        await self.scripts[marker](talk)

    async def ask(self, call: Call, marker: str, script: Script) -> Told:
        """Make a call that the provider answers so."""
        self.scripts[marker], self.counts[marker] = script, 0
        return await told(self.running, call, call.body(marker))

    async def works(self, *calls: Call) -> None:
        """Nothing is held, the next call of each kind is answered, and nothing is held after it."""
        await self.running.idle()
        for call in calls:
            whole = sends(b"".join(raw_answer(call, Framing.LENGTH)))
            found = await self.ask(call, "whole", whole)
            assert found.code == OK, f"{call.name}: {found}"
            assert self.counts["whole"] == 1
        await self.running.idle()

    async def metrics(self) -> dict[str, dict[tuple[str, ...], float]]:
        """`/metrics`: by name, the values by labels in the order of the labels' names."""
        _, _, raw = await self.running.get("/metrics")
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for family in text_string_to_metric_families(raw.decode()):
            for sample in family.samples:
                labels = tuple(sample.labels[name] for name in sorted(sample.labels))
                found.setdefault(sample.name, {})[labels] = sample.value
        return found

    async def operations(self) -> Counter[tuple[str, ...]]:
        """Finished calls by capability, code, outcome and route. No permit may be in use."""
        metrics = await self.metrics()
        assert metrics["pumas_permits_in_use"] == {(): 0}
        assert set(metrics["pumas_pod_in_flight"].values()) <= {0}
        assert metrics["pumas_buffered_bytes"] == {(): 0}
        operations = metrics.get("pumas_operations_total", {})
        return Counter({labels: int(count) for labels, count in operations.items()})


@asynccontextmanager
async def bench(settings: RouterSettings = TEST_SETTINGS) -> AsyncIterator[Bench]:
    """Serve one. The provider is asked once what it is: a busy machine must not make it silent."""
    async with AsyncExitStack() as provider:
        upstream = await provider.enter_async_context(ScriptedUpstream(models=_LISTING).serving())
        models = (
            external(upstream.url, "chat"),
            external(upstream.url, "embed", "feature-extraction"),
            external(upstream.url, "rank", "text-ranking"),
            external(upstream.url, "decide", None, model="decider"),
        )
        with patch.multiple(workers, _ASK_SECONDS=60, EXTERNAL_SECONDS=3600):
            async with running_router(*models, settings=settings) as running:
                made = Bench(running, upstream, provider)
                upstream.script = made.answer
                yield made
