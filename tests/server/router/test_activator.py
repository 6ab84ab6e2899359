"""Requests for a model that sleeps, over HTTP: one load, everybody answered, nobody kept."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from support.eventually import eventually
from support.routers import RunningRouter, chat_operation
from support.senses import image_part, said
from support.sleeping_model import SleepingModel, sleeping

CHAT = {"model": "llm", "messages": [{"role": "user", "content": "hi"}]}
OUT_OF_MEMORY = {"reason": "OOMKilled", "message": "The engine used too much memory."}
NO_MODEL = {"reason": "NotAModel", "message": "the file is no model"}


async def held(running: RunningRouter, count: int) -> None:
    await eventually(lambda: running.router.activator.held == count, f"{count} calls that wait")


async def begun(running: RunningRouter, model: SleepingModel, count: int = 1) -> None:
    """So many wait, and the load that they wait for has begun."""
    await held(running, count)
    await eventually(lambda: bool(model.scaled), "the load")


def asked(running: RunningRouter, count: int = 1) -> list[asyncio.Task[tuple[int, Any]]]:
    """So many callers, in this order."""
    return [asyncio.create_task(running.operate(chat_operation())) for _ in range(count)]


def loads(model: SleepingModel) -> None:
    model.change(state="loading")
    model.change(state="loaded")


async def test_a_request_wakes_a_model_and_is_answered() -> None:
    async with sleeping() as (running, model):
        (call,) = asked(running)
        await begun(running, model, 1)
        await eventually(lambda: model.renewed == 1, "its demand is told")
        assert model.scaled == [2]
        assert running.router.admission.in_flight == 0, "it holds no permit"
        loads(model)
        status, body = await call
        assert (status, body["result"]["kind"]) == (200, "text"), body


async def test_many_callers_are_one_load() -> None:
    async with sleeping() as (running, model):
        calls = asked(running, 20)
        await begun(running, model, 20)
        loads(model)
        answers = await asyncio.gather(*calls)
        assert {status for status, _ in answers} == {200}, answers[0]
        assert model.scaled == [2]


async def test_openai_routes_wake_it_too() -> None:
    async with sleeping() as (running, model):
        call = asyncio.create_task(running.post("/v1/chat/completions", CHAT))
        await begun(running, model, 1)
        loads(model)
        assert (await call)[0] == 200


async def test_whoever_leaves_costs_nothing_and_the_load_goes_on() -> None:
    async with sleeping() as (running, model):
        async with running.raw("/v1/model-operations", chat_operation()):
            await begun(running, model, 1)
        await held(running, 0)
        loads(model)
        await running.until(lambda c: bool(c.rows[0].targets))
        assert (await running.operate(chat_operation()))[0] == 200
        assert model.scaled == [2]


async def test_a_load_that_fails_is_told_to_all_who_wait() -> None:
    async with sleeping() as (running, model):
        calls = asked(running, 3)
        forwarded = asyncio.create_task(running.post("/v1/chat/completions", CHAT))
        streamed = asyncio.create_task(
            running.post("/v1/chat/completions", CHAT | {"stream": True})
        )
        await begun(running, model, 5)
        model.change(state="failed", error=OUT_OF_MEMORY)
        for status, body in await asyncio.gather(*calls):
            assert (status, body["error"]["code"]) == (503, "capability_unavailable")
            assert body["error"]["outcome"] == "not_admitted"
            assert "OOMKilled: The engine used too much memory." in body["error"]["message"]
        for status, headers, raw in await asyncio.gather(forwarded, streamed):
            error = json.loads(raw)["error"]
            assert (status, error["code"]) == (503, "model_load_failed")
            assert (headers["retry-after"], headers["x-pumas-outcome"]) == ("1", "not_admitted")


async def test_a_file_that_is_no_model_is_nobodys_fault_but_ours_to_tell_for_good() -> None:
    async with sleeping() as (running, model):
        call = asyncio.create_task(running.post("/v1/chat/completions", CHAT))
        await begun(running, model, 1)
        model.change(state="failed", replicas=0, error=NO_MODEL)
        status, headers, raw = await call
        assert (status, json.loads(raw)["error"]["code"]) == (500, "model_load_failed")
        assert "retry-after" not in headers
        status, body = await running.operate(chat_operation())
        assert status == 503 and "NotAModel" in body["error"]["message"]
        assert model.scaled == [2], "a request does not load what failed for good"


@pytest.mark.parametrize(
    "changes, status",
    [
        ({"options": {"kind": "text_generation", "max_tokens": 513}}, 400),
        ({"capability": "rerank"}, 400),
        ({"capability": ..., "output": "decisions", "options": ...}, 422),
        ({"capability": "text_embedding", "input": {"kind": "text", "text": "x"}}, 400),
    ],
)
async def test_what_it_could_not_do_awake_does_not_wake_it(
    changes: dict[str, Any], status: int
) -> None:
    async with sleeping() as (running, model):
        assert (await running.operate(chat_operation(**changes)))[0] == status
        assert (model.scaled, model.renewed) == ([], 0)


@pytest.mark.parametrize("senses", [("image",), ("image", "audio")])
async def test_an_image_wakes_one_that_never_ran_and_will_see(senses: tuple[str, ...]) -> None:
    async with sleeping() as (running, model):
        model.change(known=False, senses=senses)
        model.pod.takes = ["text", *senses]
        await running.until(lambda c: bool(c.rows[0].facts.expected_input))
        body = chat_operation(input=said(image_part()), capability=..., options=...)
        call = asyncio.create_task(running.operate(body))
        await begun(running, model, 1)
        loads(model)
        status, answer = await call
        assert (status, answer["result"]["kind"]) == (200, "text"), answer


async def test_a_transcription_wakes_who_hears_and_nobody_else() -> None:
    form = b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nllm\r\n--x--\r\n'
    kind = {"Content-Type": "multipart/form-data; boundary=x"}
    async with sleeping() as (running, model):
        status, _, raw = await running.post("/v1/audio/transcriptions", form, **kind)
        assert (status, model.scaled) == (409, []), raw
        model.change(known=False, senses=("audio",))
        model.pod.takes = ["text", "audio"]
        await running.until(lambda c: bool(c.rows[0].facts.expected_input))
        call = asyncio.create_task(running.post("/v1/audio/transcriptions", form, **kind))
        await begun(running, model, 1)
        loads(model)
        assert (await call)[0] == 200


async def test_a_route_that_it_does_not_serve_does_not_wake_it() -> None:
    async with sleeping() as (running, model):
        status, _, raw = await running.post("/v1/embeddings", {"model": "llm", "input": "x"})
        assert (status, json.loads(raw)["error"]["code"]) == (400, "endpoint_unavailable")
        assert model.scaled == []


async def test_nobody_waits_longer_than_may_be() -> None:
    async with sleeping(holdSeconds=0) as (running, model):
        status, headers, raw = await running.post("/v1/model-operations", chat_operation())
        error = json.loads(raw)["error"]
        assert (status, error["outcome"]) == (503, "not_admitted")
        assert error["message"] == "model `llm` is still loading after 0 s"
        assert headers["retry-after"] == "1"
        await eventually(lambda: model.scaled == [2], "the load that it began")
        loads(model)


async def test_only_so_many_wait() -> None:
    async with sleeping(max_held=2) as (running, model):
        calls = asked(running, 2)
        await begun(running, model, 2)
        status, body = await running.operate(chat_operation())
        assert (status, body["error"]["message"]) == (
            503,
            "all 2 calls that may wait for a model to load do so",
        )
        loads(model)
        assert [status for status, _ in await asyncio.gather(*calls)] == [200, 200]


async def test_one_that_is_not_on_demand_is_not_waked() -> None:
    async with sleeping(onDemand=False) as (running, model):
        assert (await running.operate(chat_operation()))[0] == 503
        status, _, raw = await running.post("/v1/chat/completions", CHAT)
        assert (status, json.loads(raw)["error"]["code"]) == (409, "model_not_ready")
        assert model.scaled == []


@pytest.mark.parametrize(
    ("managed", "way_out"),
    [
        (True, "POST /lmsp/v1/models/llm/load loads it"),
        (False, "it is loaded where spec.replicas is 1 or more"),
    ],
)
async def test_one_that_nobody_wakes_says_what_loads_it(managed: bool, way_out: str) -> None:
    why = f"ScaledToZero: No pod is wanted, and no request to it changes that; {way_out}."
    async with sleeping(managed=managed, onDemand=False) as (running, _):
        body = json.dumps(chat_operation()).encode()
        status, headers, raw = await running.post("/v1/model-operations", body)
        assert (status, headers.get("retry-after")) == (503, None), "waiting does not help"
        told = json.loads(raw)["error"]["message"]
        assert told == f"not available now (chat_generation: runtime_unavailable); {why}"
        status, _, raw = await running.post("/v1/chat/completions", CHAT)
        assert status == 409
        assert json.loads(raw)["error"]["message"] == f"model `llm` is unloaded: {why}"
        for path in ("/v1/served-models", "/v1/capabilities?model=llm"):
            async with running.client.get(path) as answer:
                found = await answer.json()
            (entry,) = found.get("models", [found])
            assert f"{entry['error']['reason']}: {entry['error']['message']}" == why


async def test_somebody_who_is_faster_is_looked_at_first() -> None:
    async with sleeping() as (running, model):
        model.outdated = 2
        (call,) = asked(running)
        await eventually(lambda: model.scaled == [2], "the third attempt")
        loads(model)
        assert (await call)[0] == 200


async def test_an_api_server_that_is_away_is_waited_for() -> None:
    async with sleeping() as (running, model):
        model.away = True
        (call,) = asked(running)
        await held(running, 1)
        model.away = False
        await eventually(lambda: model.scaled == [2], "an attempt")
        loads(model)
        assert (await call)[0] == 200


async def test_what_is_unloaded_or_deleted_meanwhile_is_told() -> None:
    async with sleeping() as (running, model):
        (call,) = asked(running)
        await begun(running, model, 1)
        model.change(replicas=0, state="unloaded")
        status, body = await call
        assert status == 503 and "unloaded while it loaded" in body["error"]["message"]
        (call,) = asked(running)
        await held(running, 1)
        await eventually(lambda: model.scaled == [2, 2], "another load")
        model.delete()
        status, body = await call
        assert body["error"]["outcome"] == "not_admitted"
        assert status in (502, 503)


async def test_how_a_load_ends_that_nobody_waits_for_is_not_told_to_who_comes_later() -> None:
    async with sleeping() as (running, model):
        tell, model.source.put = model.source.put, lambda *records: None  # type: ignore[method-assign]
        async with running.raw("/v1/model-operations", chat_operation()):
            await begun(running, model, 1)
        await held(running, 0)
        model.change(state="loaded")
        model.change(replicas=0, state="unloaded")
        (call,) = asked(running)
        await held(running, 1)
        model.source.put = tell  # type: ignore[method-assign]
        model.change()
        await eventually(lambda: model.scaled == [2, 2], "a load of its own")
        loads(model)
        status, body = await call
        assert status == 200, body


async def test_discovery_tells_that_it_sleeps_and_what_it_will_be() -> None:
    async with sleeping() as (running, _):
        (listed,) = json.loads((await running.get("/v1/served-models"))[2])["models"]
        assert (listed["load_state"], listed["activation"]) == ("unloaded", {"on_demand": True})
        assert (listed["context_tokens"], listed["modalities"]["input"]) == (512, ["text"])
        told = {c["capability"]: c["availability"] for c in listed["capabilities"]}
        assert told["chat_generation"] == {"state": "unavailable", "reason": "runtime_unavailable"}
        _, _, raw = await running.get("/v1/capabilities?model=llm")
        assert json.loads(raw)["activation"] == {"on_demand": True}


@pytest.mark.parametrize("path", ["/v1/model-operations", "/v1/chat/completions"])
async def test_one_that_falls_asleep_under_a_call_is_waked_for_it(path: str) -> None:
    async with sleeping() as (running, model):
        model.change(replicas=1, state="loaded")
        await running.until(lambda c: bool(c.rows[0].targets))
        upstream = running.router.upstream
        original = upstream.post

        async def post(*call: Any) -> Any:
            upstream.post = original  # type: ignore[method-assign]
            model.change(replicas=0, state="unloading")
            await running.until(lambda c: not c.rows[0].targets)
            return await original(*call)

        upstream.post = post  # type: ignore[method-assign, assignment]
        body = chat_operation() if path.endswith("operations") else CHAT
        call = asyncio.create_task(running.post(path, body))
        await begun(running, model, 1)
        loads(model)
        status, _, raw = await call
        assert status == 200, raw
        assert model.scaled == [2]
