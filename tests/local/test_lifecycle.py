"""A model that is loaded on demand, with the real engine: asleep, waked, put to rest, waked again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pumas_crds.vocabulary import LoadState
from pumas_local import node as node_module
from pumas_local.manifest_files import Manifests
from pumas_local.node import Node
from support.local_machine import Clock, machine, running_node, when
from support.models import served_model
from support.routers import chat_operation

IDLE = 300.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(node_module, "RENEW_SECONDS", 0.1)
    return Clock()


async def test_it_sleeps_wakes_and_rests_again(
    tmp_path: Path, tiny_models: Path, clock: Clock
) -> None:
    source = {"path": str(tiny_models / "tiny-chat.gguf")}
    spec = {"source": source, "replicas": 0, "activation": {"onDemand": True}}
    async with machine(tmp_path, clock, served_model("llm", **spec)) as running:
        row = await when(running, lambda row: row.facts.mode is not None)
        assert (row.load_state, row.targets) == (LoadState.UNLOADED, ())
        for _ in range(2):
            answers = await asyncio.gather(*(running.operate(chat_operation()) for _ in range(5)))
            assert {status for status, _ in answers} == {200}, answers
            row = await when(running, lambda row: row.load_state is LoadState.LOADED)
            pods = [target.identity.endpoint_uid for target in row.targets]
            assert len(pods) == 1
            clock.now += IDLE - 1
            await asyncio.sleep(0.3)  # three looks: none is due
            assert running.router.workers.catalog.rows[0].targets
            # A renewal may come late, by the real clock: then it was used until then.
            while running.router.workers.catalog.rows[0].targets:
                clock.now += IDLE
                await asyncio.sleep(0.1)
            row = await when(running, lambda row: row.load_state is LoadState.UNLOADED)
            assert row.facts.context_tokens, "what it was is still known"
            assert row.model.status.last_replicas == 1


async def test_a_running_call_keeps_it_awake(
    tmp_path: Path, tiny_models: Path, clock: Clock
) -> None:
    source = {"path": str(tiny_models / "tiny-chat.gguf")}
    spec = {"source": source, "activation": {"onDemand": True}}
    async with machine(tmp_path, clock, served_model("llm", **spec)) as running:
        await when(running, lambda row: bool(row.targets))
        options = {"kind": "text_generation", "max_tokens": 400}
        call = asyncio.create_task(running.stream(chat_operation(options=options)))
        while not call.done():
            clock.now += IDLE
            await asyncio.sleep(0.02)
        records = call.result()
        assert records[-1][0] == "completed", records[-1]


async def test_a_file_that_is_mended_is_loaded_when_it_is_asked_for(
    tmp_path: Path, tiny_models: Path, clock: Clock
) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(b"no model")
    spec = {"source": {"path": str(file)}, "activation": {"onDemand": True}}
    async with machine(tmp_path / "data", clock, served_model("llm", **spec)) as running:
        row = await when(running, lambda row: row.load_state is LoadState.FAILED)
        status, body = await running.operate(chat_operation())
        assert status == 503 and "NotAModel" in body["error"]["message"]
        file.write_bytes((tiny_models / "tiny-chat.gguf").read_bytes())
        await running.router.steering.ask_again(row.model)
        await when(running, lambda row: row.load_state is LoadState.LOADED)
        assert (await running.operate(chat_operation()))[0] == 200


async def test_manifests_that_are_read_again_change_what_they_change(
    tmp_path: Path, tiny_models: Path
) -> None:
    source = {"path": str(tiny_models / "tiny-embed.gguf")}
    kept, changed, gone, new = (
        served_model(name, uid=name, source=source) for name in ("kept", "changed", "gone", "new")
    )
    async with running_node(Node(Manifests((kept, changed, gone)), tmp_path)) as node:
        before = await serving_uids(node, {"kept", "changed", "gone"})
        spec = changed.spec.model_copy(update={"alias": "another"})
        other = changed.model_copy(update={"spec": spec})
        await node.reload(Manifests((kept, other, new)))
        after = await serving_uids(node, {"kept", "changed", "new"})
        assert after["kept"] == before["kept"]
        assert after["changed"] != before["changed"]


async def serving_uids(node: Node, names: set[str]) -> dict[str, str]:
    """The pod of each model, once these and no others are listed and ready."""
    async with asyncio.timeout(60):
        async for records in node.source.watch():
            ready = {
                record.model.metadata.name: endpoint.uid
                for record in records
                for endpoint in record.endpoints
                if endpoint.ready
            }
            if ready.keys() == names and len(records) == len(names):
                return ready
    raise AssertionError("a watch ended")
