"""The node: what each manifest becomes, first without and then with the real worker."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from pumas_crds.served_model import ServedModel
from pumas_crds.vocabulary import LoadState, Reason
from pumas_local.manifest_files import Manifests
from pumas_local.node import Node
from pumas_local.source import LocalSource
from pumas_server.router.source import ModelRecord
from support.eventually import eventually
from support.local_machine import running_node
from support.models import external_model, served_model, serving_profile
from support.worker import is_running


async def listing(source: LocalSource) -> tuple[ModelRecord, ...]:
    return await anext(source.watch())


async def only(node: Node) -> ModelRecord:
    (record,) = await listing(node.source)
    return record


async def record_when(node: Node, holds: Callable[[ModelRecord], bool]) -> ModelRecord:
    """The only record, once it is so; told by the watch and not by asking again."""
    async with asyncio.timeout(30):
        async for records in node.source.watch():
            if holds(records[0]):
                return records[0]
    raise AssertionError("a watch ended")


def running(data: Path, *models: ServedModel) -> AbstractAsyncContextManager[Node]:
    return running_node(Node(Manifests(models), data))


async def refusal(tmp_path: Path, manifests: Manifests) -> Reason:
    """Why the only model is refused, before anything is started and after."""
    node = Node(manifests, tmp_path)
    before = await only(node)
    await node.start()
    assert await only(node) == before
    status = before.model.status
    assert status.load_state is LoadState.FAILED and status.error
    assert before.endpoints == () and not (tmp_path / "run").exists()
    await node.stop()
    return status.error.reason


async def test_refusals_before_any_process(tmp_path: Path) -> None:
    missing = Manifests((served_model(profile="long"),))
    assert await refusal(tmp_path, missing) is Reason.PROFILE_NOT_FOUND
    for spec in (
        {"projector": {"http": {"url": "http://h/p.gguf"}}},
        {"source": {"http": {"url": "http://h/m.gguf"}}},
        {"replicas": 2},
    ):
        beyond = Manifests((served_model(**spec),))
        assert await refusal(tmp_path, beyond) is Reason.NOT_IMPLEMENTED
    profile = serving_profile(allowedEndpointHosts=["near.example"])
    host = Manifests((external_model("http://far.example"),), (profile,))
    assert await refusal(tmp_path, host) is Reason.ENDPOINT_NOT_ALLOWED


async def test_an_external_server_is_one_endpoint_without_a_key(tmp_path: Path) -> None:
    async with running(tmp_path, external_model("http://127.0.0.1:9/v1/")) as node:
        record = await only(node)
        (endpoint,) = record.endpoints
        assert endpoint.url == "http://127.0.0.1:9"
        assert (endpoint.uid, endpoint.supervisor_url, endpoint.ready, endpoint.api_key) == (
            "external",
            None,
            True,
            None,
        )
        assert record.model.status.load_state is LoadState.LOADING
        assert record.model.status.conditions[0].reason == Reason.ACCEPTED


@pytest.mark.parametrize(
    ("spec", "reason", "error"),
    [
        ({"replicas": 0}, Reason.SCALED_TO_ZERO, None),
        ({"suspend": True}, Reason.SUSPENDED, Reason.SUSPENDED),
    ],
)
async def test_of_a_model_that_is_not_wanted_the_file_is_known_and_nothing_runs(
    tmp_path: Path, tiny_models: Path, spec: dict[str, Any], reason: Reason, error: Reason | None
) -> None:
    source = {"path": str(tiny_models / "tiny-chat.gguf")}
    async with running(tmp_path, served_model(source=source, **spec)) as node:
        record = await record_when(node, lambda r: r.model.status.file is not None)
        status = record.model.status
        assert record.endpoints == () and not list(tmp_path.glob("run/*/server.log"))
        assert status.load_state is LoadState.UNLOADED
        assert (status.error.reason if status.error else None) == error
        reasons = {condition.reason for condition in status.conditions}
        assert {reason, Reason.ACCEPTED} <= reasons
        assert status.spec_hash == record.spec_hash


async def test_a_file_that_is_refused_is_told_though_nobody_wants_it(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"no model")
    model = served_model(source={"path": str(tmp_path / "m.gguf")}, replicas=0)
    async with running(tmp_path, model) as node:
        record = await record_when(node, lambda r: r.model.status.error is not None)
        assert record.model.status.load_state is LoadState.FAILED
        assert record.model.status.error and record.model.status.error.reason is Reason.NOT_A_MODEL


async def test_an_external_model_that_is_suspended_runs_nothing(tmp_path: Path) -> None:
    spec = {"suspend": True, "runtime": "external", "endpoint": {"url": "http://127.0.0.1:9"}}
    async with running(tmp_path, served_model(**spec)) as node:
        record = await only(node)
        assert record.endpoints == () and not (tmp_path / "run").exists()
        assert record.model.status.load_state is LoadState.UNLOADED


async def test_of_two_models_of_one_identity_the_later_is_neither_listed_nor_run(
    tmp_path: Path,
) -> None:
    twins = [external_model("http://127.0.0.1:9", name) for name in ("first", "second")]
    spec = twins[1].spec.model_copy(update={"alias": "first"})
    other = served_model("third", alias="first", profile="long")
    manifests = Manifests(
        (twins[0], twins[1].model_copy(update={"spec": spec}), other), (serving_profile("long"),)
    )
    node = Node(manifests, tmp_path)
    listed = await listing(node.source)
    assert [record.model.metadata.name for record in listed] == ["first", "third"]
    (unlisted,) = node.unlisted
    assert unlisted.status.error and unlisted.status.error.reason is Reason.DUPLICATE_IDENTITY


async def test_a_default_profile_that_is_written_down_counts(tmp_path: Path) -> None:
    profile = serving_profile(engine={"parallel": 2})
    plain, with_profile = (
        Node(Manifests((served_model(),), profiles), tmp_path) for profiles in ((), (profile,))
    )
    assert (await only(plain)).spec_hash != (await only(with_profile)).spec_hash


def children() -> list[int]:
    return [child.pid for child in psutil.Process().children(recursive=True)]


async def test_a_tiny_model_becomes_ready_answers_and_is_gone(
    tmp_path: Path, tiny_models: Path
) -> None:
    model = served_model("tiny-chat", source={"path": str(tiny_models / "tiny-chat.gguf")})
    before = set(children())
    async with running(tmp_path, model) as node:
        assert (await only(node)).model.status.load_state is LoadState.LOADING
        record = await record_when(node, lambda record: any(e.ready for e in record.endpoints))
        status = record.model.status
        assert status.load_state is LoadState.LOADED and status.error is None
        assert status.file and status.file.architecture == "llama"
        assert status.servable_replicas == 1
        (endpoint,) = record.endpoints
        assert endpoint.api_key and endpoint.api_key not in repr(record)
        assert endpoint.supervisor_url
        async with httpx.AsyncClient() as client:
            body = {"prompt": "a", "max_tokens": 1}
            headers = {"Authorization": f"Bearer {endpoint.api_key}"}
            url = endpoint.url + "/v1/completions"
            assert (await client.post(url, json=body, headers=headers)).status_code == 200
            assert (await client.post(url, json=body)).status_code == 401
            told = (await client.get(endpoint.supervisor_url + "/descriptor")).json()
            assert told["spec_hash"] == record.spec_hash
        processes = set(children()) - before
        assert len(processes) >= 2, "supervisor and engine"
        began = time.monotonic()
    assert time.monotonic() - began < 3
    await eventually(lambda: not any(map(is_running, processes)), "all are gone", 2)
    after = await only(node)
    assert after.endpoints == () and after.model.status.load_state is LoadState.UNLOADED
    assert not list(tmp_path.rglob("engine-key"))


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"source": {"path": "/nowhere/tiny.gguf"}}, Reason.SOURCE_UNREACHABLE),
        ({"source": {"path": "short.gguf"}}, Reason.TRUNCATED),
        ({"source": {"path": "text.gguf"}}, Reason.NOT_A_MODEL),
        ({"source": {"path": "tiny-chat.gguf"}, "sha256": "0" * 64}, Reason.DIGEST_MISMATCH),
        (
            {"source": {"path": "tiny-rerank-headless.gguf"}, "task": "text-ranking"},
            Reason.MISSING_RANKING_HEAD,
        ),
    ],
)
async def test_a_bad_file_is_failed_and_says_why(
    tmp_path: Path, tiny_models: Path, spec: dict[str, Any], reason: Reason
) -> None:
    for file in tiny_models.glob("*.gguf"):
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / "short.gguf").write_bytes((tiny_models / "tiny-chat.gguf").read_bytes()[:-1000])
    (tmp_path / "text.gguf").write_text("no model at all\n")
    path = os.path.join(tmp_path, spec["source"]["path"])
    model = served_model("tiny", **{**spec, "source": {"path": path}})
    async with running(tmp_path / "data", model) as node:
        record = await record_when(
            node, lambda record: record.model.status.load_state is LoadState.FAILED
        )
        error = record.model.status.error
        assert error and error.reason is reason
        assert str(tmp_path) not in error.message
        assert record.endpoints == ()


async def test_an_engine_that_fails_for_ever_is_failed_and_says_why(
    tmp_path: Path, tiny_models: Path
) -> None:
    path = str(tiny_models / "tiny-chat.gguf")
    engine = {"chatTemplate": "{% if %}"}
    model = served_model("tiny", source={"path": path}, engine=engine)
    async with running(tmp_path, model) as node:
        record = await record_when(node, lambda record: record.model.status.error is not None)
        status = record.model.status
        assert status.load_state is LoadState.FAILED
        assert status.error and status.error.reason is Reason.ENGINE_FAILED


async def test_a_data_folder_without_room_is_told_and_tried_again(
    tmp_path: Path, tiny_models: Path
) -> None:
    data = tmp_path / "data"
    data.touch()
    model = served_model("tiny", source={"path": str(tiny_models / "tiny-embed.gguf")})
    asleep = served_model("asleep", source=model.spec.source, replicas=0)
    async with running(data, model, asleep) as node:
        told = (await record_when(node, lambda r: r.model.status.error is not None)).model.status
        assert told.load_state is LoadState.FAILED and told.error
        assert told.error.reason is Reason.ENGINE_FAILED
        sentence = "The data folder of pumas serve cannot be used: Not a directory."
        assert told.error.message == sentence
        data.unlink()
        await record_when(node, lambda r: r.model.status.load_state is LoadState.LOADED)
        async with asyncio.timeout(30):
            async for records in node.source.watch():
                if records[1].model.status.file is not None:
                    break


async def test_one_bad_model_keeps_no_other_from_serving(tmp_path: Path, tiny_models: Path) -> None:
    good = served_model("good", source={"path": str(tiny_models / "tiny-embed.gguf")})
    bad = served_model("bad", source={"path": "/nowhere/tiny.gguf"})
    async with running(tmp_path, bad, good) as node:
        async with asyncio.timeout(30):
            async for bad_record, good_record in node.source.watch():
                states = [bad_record.model.status.load_state, good_record.model.status.load_state]
                if states == [LoadState.FAILED, LoadState.LOADED]:
                    break
