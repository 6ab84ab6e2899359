"""The LMSP cases that are about loading, by number, on real models of a local machine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from yarl import URL

from pumas_crds.vocabulary import LoadState
from support.local_machine import Clock, machine, when
from support.models import served_model
from support.routers import SHARED_LOOP, RunningRouter

#: One machine for what changes nothing, hence one test process.
pytestmark = [SHARED_LOOP, pytest.mark.xdist_group("lmsp-local")]

B = "/lmsp/v1/models"
CHAT = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}


@asynccontextmanager
async def catalogue(
    data: Path, tiny: Path, managed: bool = True
) -> AsyncIterator[tuple[RunningRouter, Path]]:
    """A (asleep, on demand), C (asleep, not on demand), E (ready, embeds), X (its file is broken)."""
    broken = data / "x.gguf"
    broken.write_bytes(b"no model")
    chat, embed = ({"path": str(tiny / f"tiny-{kind}.gguf")} for kind in ("chat", "embed"))
    on_demand = {"replicas": 0, "activation": {"onDemand": True}}
    models = (
        served_model("a", uid="a", alias="qwen3:14b-q4_k_m", source=chat, **on_demand),
        served_model("c", uid="c", alias="cold", source=chat, replicas=0),
        served_model("e", uid="e", alias="org/emb:1", source=embed),
        served_model("x", uid="x", alias="bad", source={"path": str(broken)}),
    )
    async with machine(data / "data", Clock(), *models, managed=managed) as running:
        await when(running, lambda row: row.facts.mode is not None, "qwen3:14b-q4_k_m")
        await when(running, lambda row: row.model.status.runtime is not None, "org/emb:1")
        await when(running, lambda row: row.load_state is LoadState.FAILED, "bad")
        await when(running, lambda row: row.facts.mode is not None, "cold")
        yield running, broken


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(
    tmp_path_factory: pytest.TempPathFactory, tiny_models: Path
) -> AsyncIterator[RunningRouter]:
    """For tests that load, unload and mend nothing."""
    async with catalogue(tmp_path_factory.mktemp("catalogue"), tiny_models) as (shared, _):
        yield shared


async def get(running: RunningRouter, path: str = "") -> tuple[int, Any]:
    status, _, raw = await running.get(B + path)
    return status, json.loads(raw)


async def post(running: RunningRouter, path: str, **headers: str) -> tuple[int, Any, Any]:
    status, told, raw = await running.post(B + path, b"", **headers)
    return status, told, json.loads(raw)


async def until(running: RunningRouter, path: str, *states: str) -> Any:
    """The model, polled as a client does."""
    for _ in range(1200):
        _, found = await get(running, path)
        if found["status"] in states:
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"{path} is {found['status']}, and not {states}")


async def test_cases_1_to_6_23_and_24_the_list(running: RunningRouter) -> None:
    _, listed = await get(running)
    assert [each["id"] for each in listed["data"]] == [
        *("bad", "cold", "org/emb:1", "qwen3:14b-q4_k_m")
    ]
    told = {
        each["id"]: (each["status"], each.get("error", {}).get("code")) for each in listed["data"]
    }
    assert told == {
        "bad": ("error", "model_load_failed"),
        "cold": ("installed", None),
        "org/emb:1": ("ready", None),
        "qwen3:14b-q4_k_m": ("installed", None),
    }
    for query, ids in (
        ("?capability=embeddings", ["org/emb:1"]),
        ("?capability=chat", ["cold", "qwen3:14b-q4_k_m"]),
        ("?capability=chat&ready_only=true", []),
        ("?ready_only=true", ["org/emb:1"]),
    ):
        _, narrowed = await get(running, query)
        assert [each["id"] for each in narrowed["data"]] == ids, query
        assert narrowed["catalog_revision"] == listed["catalog_revision"]
    for path in ("/org%2Femb%3A1", "/org/emb:1"):
        assert (await get(running, path)) == (200, listed["data"][2])
    runtime = listed["data"][2]["runtime"]
    assert (runtime["backend"], runtime["load_on_demand"]) == ("llama.cpp", False)
    assert runtime["device"].startswith("cpu"), runtime


async def test_cases_29_36_38_and_21_a_life(tmp_path: Path, tiny_models: Path) -> None:
    async with catalogue(tmp_path, tiny_models) as (running, _):
        path = "/qwen3%3A14b-q4_k_m"
        revisions = [(await get(running))[1]["catalog_revision"]]
        status, headers, body = await post(running, f"{path}/load")
        assert (status, body["id"], body["status"]) == (202, "qwen3:14b-q4_k_m", "loading")
        assert headers["location"] == f"{B}/qwen3:14b-q4_k_m"
        found = await until(running, path, "ready")
        assert found["context_window"] > 0
        revisions.append((await get(running))[1]["catalog_revision"])
        assert (await post(running, f"{path}/load"))[0] == 200
        assert (await get(running))[1]["catalog_revision"] == revisions[-1], "case 22"
        for _ in range(2):
            status, _, body = await post(running, f"{path}/unload")
            assert status == 200 and body["status"] in ("unloading", "installed")
        await until(running, path, "installed")
        status, _, body = await post(running, f"{path}/unload")
        assert (status, body["status"]) == (200, "installed")
        revisions.append((await get(running))[1]["catalog_revision"])
        assert len({*revisions}) == 3, "what the engine told is still known"
        assert (await post(running, "/org%2Femb%3A1/load"))[0] == 200
        status, _, body = await post(running, "/nope/load")
        assert (status, body["code"]) == (404, "model_not_found")


async def test_cases_32_to_34_a_file_that_is_mended(tmp_path: Path, tiny_models: Path) -> None:
    async with catalogue(tmp_path, tiny_models) as (running, broken):
        status, _, body = await post(running, "/bad/load")
        assert (status, body["status"], "error" in body) == (202, "loading", False)
        found = await until(running, "/bad", "error")
        assert found["error"]["code"] == "model_load_failed"
        assert str(tmp_path) not in found["error"]["detail"]
        broken.write_bytes((tiny_models / "tiny-chat.gguf").read_bytes())
        assert (await post(running, "/bad/load"))[0] == 202
        await until(running, "/bad", "ready")


async def test_cases_42_to_44_requests_that_name_a_model(tmp_path: Path, tiny_models: Path) -> None:
    async with catalogue(tmp_path, tiny_models) as (running, _):
        path = "/v1/chat/completions"
        status, _, raw = await running.post(path, CHAT | {"model": "cold"})
        assert (status, json.loads(raw)["error"]["code"]) == (409, "model_not_ready")
        assert (await get(running, "/cold"))[1]["status"] == "installed"
        status, _, raw = await running.post(path, CHAT | {"model": "qwen3:14b-q4_k_m"})
        assert status == 200, raw
        await until(running, "/qwen3:14b-q4_k_m", "ready")
        status, headers, raw = await running.post(path, CHAT | {"model": "bad", "stream": True})
        assert (status, json.loads(raw)["error"]["code"]) == (500, "model_load_failed")
        assert headers["content-type"] == "application/json"


async def test_cases_47_48_and_50_keys(tmp_path: Path, tiny_models: Path) -> None:
    async with catalogue(tmp_path, tiny_models) as (running, _):
        path = "/qwen3%3A14b-q4_k_m"
        key = {"Idempotency-Key": '"k1"'}
        status, _, first = await post(running, f"{path}/load", **key)
        assert (status, first["status"]) == (202, "loading")
        await until(running, path, "ready")
        status, headers, again = await post(running, f"{path}/load", **key)
        assert (status, again) == (202, first)
        assert headers["idempotent-replayed"] == "true"
        status, _, body = await post(running, f"{path}/unload", **key)
        assert (status, body["code"]) == (422, "idempotency_key_reused")
        assert (await get(running, path))[1]["status"] == "ready"


async def test_case_64_without_model_management(tmp_path: Path, tiny_models: Path) -> None:
    async with catalogue(tmp_path, tiny_models, managed=False) as (running, _):
        for action in ("load", "unload"):
            status, _, body = await post(running, f"/cold/{action}")
            assert (status, body["code"]) == (404, "not_found")
        assert (await get(running))[0] == 200


async def status_of(running: RunningRouter, path: str, **headers: str) -> tuple[int, Any, Any]:
    """Status, headers and body of a GET whose path goes out as it is written."""
    url = URL(B + path, encoded=True)
    async with running.client.get(url, headers=headers) as answer:
        raw = await answer.read()
        return answer.status, answer.headers, json.loads(raw) if raw else None


async def test_cases_7_10_11_25_26_and_41_what_is_asked_wrongly(running: RunningRouter) -> None:
    status, _, body = await status_of(running, "?capability=telepathy")
    assert (status, body["data"]) == (200, [])
    ready_only = ("1", "yes", "TRUE", "", "banana", "true&ready_only=false")
    for query in ("capability=", "ready_only", *(f"ready_only={each}" for each in ready_only)):
        status, headers, body = await status_of(running, f"?{query}")
        assert (status, body["code"], body["status"]) == (400, "invalid_request", 400), query
        assert headers["content-type"] == "application/problem+json"
    for path in ("/org%252Femb:1", "/nope", "/qwen", "/Qwen3%2014B", "/QWEN3:14B-Q4_K_M"):
        status, headers, body = await status_of(running, path)
        assert (status, body["code"]) == (404, "model_not_found"), path
    status, _, body = await post(running, "/nope/unload")
    assert (status, body["code"]) == (404, "model_not_found")


async def test_cases_13_14_16_and_18_validators(running: RunningRouter) -> None:
    _, first, _ = await status_of(running, "")
    tag = first["etag"]
    for sent in (tag, tag.removeprefix("W/"), "*", f'"x", {tag}'):
        status, headers, body = await status_of(running, "", **{"If-None-Match": sent})
        assert (status, body) == (304, None), sent
        for name in ("etag", "vary", "cache-control"):
            assert headers[name] == first[name]
    status, _, _ = await status_of(running, "?ready_only=true", **{"If-None-Match": tag})
    assert status == 200


async def test_case_30_a_load_that_is_under_way_is_not_begun_again(
    tmp_path: Path, tiny_models: Path
) -> None:
    async with catalogue(tmp_path, tiny_models) as (running, _):
        for _ in range(3):
            status, _, body = await post(running, "/cold/load")
            assert (status, body["status"]) == (202, "loading")
        await until(running, "/cold", "ready")
        assert len(list(tmp_path.glob("data/run/c-serving-*"))) == 1, "one pod"
