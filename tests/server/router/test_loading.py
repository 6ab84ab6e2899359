"""Loads and unloads by request, over HTTP and one version of the model at a time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pumas_crds.vocabulary import LoadState
from pumas_server.router.lmsp.load_control import ModelGone, NotLoadable
from pumas_server.router.loading import Loading
from pumas_server.router.steering import Unsteerable
from support.routers import RunningRouter, external, running_router
from support.sleeping_model import SleepingModel, sleeping

UID = "uid-of-llm"
FAULT = {"reason": "OOMKilled", "message": "too much"}


def loading(running: RunningRouter) -> Loading:
    return Loading(running.router.workers, running.router.steering)


async def post(running: RunningRouter, action: str, **headers: str) -> tuple[int, Any]:
    status, _, raw = await running.post(f"/lmsp/v1/models/llm/{action}", b"", **headers)
    return status, json.loads(raw)


async def settled(running: RunningRouter, model: SleepingModel) -> None:
    """Until the router has seen the model as it is."""
    version = str(model.version)
    await running.until(lambda c: c.rows[0].model.metadata.resource_version == version)


async def test_a_load_is_begun_once_and_then_said_to_be_done() -> None:
    async with sleeping(managed=True) as (running, model):
        status, body = await post(running, "load")
        assert (status, body["status"], body["id"]) == (202, "loading", "llm")
        await settled(running, model)
        assert (await post(running, "load"))[0] == 202
        assert model.scaled == [2]
        model.change(state="loaded")
        await settled(running, model)
        status, body = await post(running, "load")
        assert (status, body["status"]) == (200, "ready")
        assert model.scaled == [2]


async def test_an_unload_may_be_repeated() -> None:
    async with sleeping(managed=True) as (running, model):
        status, body = await post(running, "unload")
        assert (status, body["status"]) == (200, "installed")
        model.change(replicas=2, state="loaded")
        await settled(running, model)
        status, body = await post(running, "unload")
        assert (status, body["status"]) == (200, "unloading")
        await settled(running, model)
        assert (await post(running, "unload"))[1]["status"] == "unloading"
        model.change(state="unloaded")
        await settled(running, model)
        assert (await post(running, "unload"))[1]["status"] == "installed"
        assert model.scaled == [0]


async def test_an_unload_cancels_a_load_and_a_load_an_unload() -> None:
    async with sleeping(managed=True) as (running, model):
        for action in ("load", "unload", "load"):
            await post(running, action)
            await settled(running, model)
        assert model.scaled == [2, 0, 2]


async def test_what_failed_is_asked_for_once_more() -> None:
    async with sleeping(managed=True) as (running, model):
        model.change(replicas=1, state="failed", error=FAULT)
        await settled(running, model)
        status, body = await post(running, "load")
        assert (status, body["status"], "error" in body) == (202, "loading", False)
        assert (model.asked_again, model.scaled) == (1, [])
        model.change(replicas=0, state="failed")
        await settled(running, model)
        assert (await post(running, "load"))[0] == 202
        assert (model.asked_again, model.scaled) == (2, [2])
        model.change(replicas=0, state="failed")
        await settled(running, model)
        status, body = await post(running, "unload")
        assert (status, body["status"]) == (200, "error")


async def test_somebody_who_is_faster_is_looked_at_first() -> None:
    async with sleeping() as (running, model):
        model.outdated = 3
        assert await loading(running).load(UID) is LoadState.LOADING
        assert model.scaled == [2]


async def test_a_model_that_never_holds_still_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async with sleeping() as (running, model):
        model.outdated = 1000
        with pytest.raises(Unsteerable, match="keeps changing") as refused:
            await loading(running).load(UID)
        assert refused.value.begun, "its Lease was written"
        model.change(replicas=2, state="loaded")
        await settled(running, model)
        with pytest.raises(Unsteerable, match="keeps changing") as refused:
            await loading(running).unload(UID)
        assert not refused.value.begun, "each write was refused"
        with pytest.raises(ModelGone):
            await loading(running).load("another")


async def test_what_cannot_be_carried_out_now_is_not_kept_under_a_key() -> None:
    async with sleeping(managed=True) as (running, model):
        model.away = True
        key = {"Idempotency-Key": "k"}
        status, body = await post(running, "load", **key)
        assert (status, body["code"]) == (503, "unavailable")
        model.away = False
        assert (await post(running, "load", **key))[0] == 202


async def test_what_is_suspended_or_not_ours_is_not_loaded() -> None:
    async with sleeping(managed=True) as (running, model):
        model.suspend = True
        model.change()
        await settled(running, model)
        status, body = await post(running, "load")
        assert (status, body["code"]) == (409, "model_not_ready")
        assert body["detail"] == "the model is suspended (spec.suspend)"
    async with running_router(external("http://127.0.0.1:9"), ready=False) as running:
        await running.until(lambda c: bool(c.rows))
        for action in (loading(running).load, loading(running).unload):
            with pytest.raises(NotLoadable, match="is not ours"):
                await action("llm@default")
