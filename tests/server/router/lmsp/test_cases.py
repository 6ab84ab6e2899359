"""The cases of section 5 by their numbers, on the real router over HTTP.

Access modes (58, 59, 61) are not built; requests that name a model (42-44) have no route here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from pumas_crds.vocabulary import LoadState
from support.catalogue import (
    BASE,
    DIGEST,
    A,
    C,
    E,
    L,
    RunningCatalogue,
    Told,
    U,
    X,
    assert_problem,
    catalogued,
    running_catalogue,
)

CASES = {
    *(1, 2, 3, 4, 5, 6, 7, 10, 11),
    *(13, 14, 16, 18, 21, 22),
    *(23, 24, 25, 26),
    *(29, 30, 32, 33, 34, 36, 38, 41),
    *(47, 48, 50, 64),
}

FLAGS = {
    "chat",
    "completion",
    "embeddings",
    "tools",
    "vision",
    "structured_output",
    "streaming",
}
STATUSES = {"installed", "loading", "ready", "unloading", "error"}
SORTED = [X, C, U, E, A, L]
LOAD_E = f"{BASE}/org%2Femb%3A1/load"
UNLOAD_E = f"{BASE}/org%2Femb%3A1/unload"


def test_every_case_has_its_test() -> None:
    found = {int(m[1]) for name in globals() if (m := re.match(r"test_case_(\d+)_", name))}
    assert found == CASES


async def status_of(catalogue: RunningCatalogue, model_id: str) -> str:
    told = await catalogue.get(f"{BASE}/{model_id.replace('/', '%2F')}")
    assert told.status == 200
    status: str = told.json["status"]
    return status


async def test_case_1_the_list(catalogue: RunningCatalogue) -> None:
    told = await catalogue.get()
    assert told.status == 200
    assert told.headers["content-type"] == "application/json"
    assert told.headers["etag"].startswith('W/"')
    assert told.json["object"] == "list"
    assert isinstance(told.json["catalog_revision"], str)
    assert told.json["catalog_revision"]
    assert [model["id"] for model in told.json["data"]] == SORTED == sorted(SORTED)


async def test_case_2_each_model_has_every_member(catalogue: RunningCatalogue) -> None:
    for model in (await catalogue.get()).json["data"]:
        assert model["object"] == "model"
        assert set(model["capabilities"]) == FLAGS
        assert all(type(flag) is bool for flag in model["capabilities"].values())
        assert model["status"] in STATUSES
        assert model["input_modalities"] == model["output_modalities"] == ["text"]
        assert set(model["runtime"]) == {"backend", "device", "load_on_demand"}
        assert type(model["runtime"]["load_on_demand"]) is bool


async def test_case_3_an_error_stands_in_a_failed_model_alone(
    catalogue: RunningCatalogue,
) -> None:
    models = {model["id"]: model for model in (await catalogue.get()).json["data"]}
    assert [model_id for model_id in models if "error" in models[model_id]] == [X]
    assert models[X]["error"]["code"] == "model_load_failed"


async def test_case_4_a_capability_selects(catalogue: RunningCatalogue) -> None:
    assert await catalogue.ids("capability=embeddings") == [E]


async def test_case_5_both_filters_are_one_and_the_revision_stays(
    catalogue: RunningCatalogue,
) -> None:
    whole = await catalogue.get()
    told = await catalogue.get(f"{BASE}?capability=chat&ready_only=true")
    assert told.status == 200
    assert told.json["data"] == []
    assert told.json["catalog_revision"] == whole.json["catalog_revision"]


async def test_case_6_ready_only(catalogue: RunningCatalogue) -> None:
    assert await catalogue.ids("ready_only=true") == [E]
    assert await catalogue.ids("ready_only=false") == SORTED


async def test_case_7_no_model_has_an_unknown_capability(catalogue: RunningCatalogue) -> None:
    assert await catalogue.ids("capability=telepathy") == []


async def test_case_10_an_empty_capability(catalogue: RunningCatalogue) -> None:
    problem = assert_problem(await catalogue.get(f"{BASE}?capability="), "invalid_request", 400)
    assert problem["param"] == "capability"


@pytest.mark.parametrize(
    "query",
    [
        "ready_only=1",
        "ready_only=yes",
        "ready_only=TRUE",
        "ready_only=",
        "ready_only",
        "ready_only=banana",
        "ready_only=true&ready_only=false",
    ],
)
async def test_case_11_ready_only_is_a_boolean(catalogue: RunningCatalogue, query: str) -> None:
    assert_problem(await catalogue.get(f"{BASE}?{query}"), "invalid_request", 400)


async def test_case_13_a_known_list_is_not_sent_again(catalogue: RunningCatalogue) -> None:
    whole = await catalogue.get()
    told = await catalogue.get(If_None_Match=whole.headers["etag"])
    assert (told.status, told.raw) == (304, b"")
    for name in ("etag", "vary", "cache-control"):
        assert told.headers[name] == whole.headers[name]
    assert "content-type" not in told.headers
    assert "content-length" not in told.headers


async def test_case_14_the_comparison_is_weak(catalogue: RunningCatalogue) -> None:
    etag = (await catalogue.get()).headers["etag"]
    strong = etag.removeprefix("W/")
    assert etag != strong
    for tag in (etag, strong):
        assert (await catalogue.get(If_None_Match=tag)).status == 304


async def test_case_16_a_star_matches_what_there_is(catalogue: RunningCatalogue) -> None:
    assert (await catalogue.get(If_None_Match="*")).status == 304
    assert (await catalogue.get(f"{BASE}/{A}", If_None_Match="*")).status == 304
    told = await catalogue.get(f"{BASE}/nope", If_None_Match="*")
    assert_problem(told, "model_not_found", 404)


async def test_case_18_another_filter_has_another_tag(catalogue: RunningCatalogue) -> None:
    etag = (await catalogue.get()).headers["etag"]
    assert (await catalogue.get(f"{BASE}?ready_only=true", If_None_Match=etag)).status == 200


def become(state: LoadState, **status: Any) -> Callable[[RunningCatalogue], None]:
    return lambda catalogue: catalogue.models.become(A, state, **status)


def respecify(**spec: Any) -> Callable[[RunningCatalogue], None]:
    return lambda catalogue: catalogue.models.put(catalogued(C, **spec))


@pytest.mark.parametrize(
    "change",
    [
        lambda catalogue: catalogue.models.put(catalogued("new")),
        lambda catalogue: catalogue.models.remove(C),
        become(LoadState.LOADING),
        become(LoadState.LOADED),
        become(LoadState.FAILED, error={"reason": "OOMKilled", "message": "No memory."}),
        respecify(catalogue={"displayName": "Renamed"}),
        respecify(catalogue={"aliases": ["chilly"]}),
        respecify(sha256="0" * 64),
    ],
    ids=["add", "delete", "load", "ready", "error", "display name", "aliases", "digest"],
)
async def test_case_21_a_change_changes_the_revision(
    catalogue: RunningCatalogue, change: Callable[[RunningCatalogue], None]
) -> None:
    before = await catalogue.get()
    change(catalogue)
    await catalogue.seen()
    after = await catalogue.get(If_None_Match=before.headers["etag"])
    assert after.status == 200
    assert after.json["catalog_revision"] != before.json["catalog_revision"]
    assert after.headers["etag"] != before.headers["etag"]


async def test_case_21_from_loading_to_ready_too(catalogue: RunningCatalogue) -> None:
    catalogue.models.become(A, LoadState.LOADING)
    await catalogue.seen()
    before = (await catalogue.get()).json["catalog_revision"]
    catalogue.models.become(A, LoadState.LOADED)
    await catalogue.seen()
    assert (await catalogue.get()).json["catalog_revision"] != before


async def test_case_22_what_changes_nothing_keeps_the_revision(
    catalogue: RunningCatalogue,
) -> None:
    def shown(told: Told) -> tuple[str, str]:
        return told.json["catalog_revision"], told.headers["etag"]

    before = shown(await catalogue.get())
    assert (await catalogue.post(LOAD_E)).status == 200
    assert (await catalogue.post(f"{BASE}/{C}/unload")).status == 200
    heartbeat = catalogued(C, status={"conditions": []})
    metadata = heartbeat.model.metadata.model_copy(update={"resource_version": "2"})
    newer = heartbeat.model.model_copy(update={"metadata": metadata})
    catalogue.models.put(type(heartbeat)(newer, heartbeat.spec_hash, heartbeat.endpoints))
    await catalogue.seen()
    assert shown(await catalogue.get()) == before
    # A restarted server, or a second one: nothing is counted in the process.
    reordered = tuple(reversed(catalogue.models.records))
    async with running_catalogue(*reordered) as second:
        assert shown(await second.get()) == before


async def test_case_23_one_model(catalogue: RunningCatalogue) -> None:
    listed = (await catalogue.get()).json["data"][SORTED.index(A)]
    for path in ("qwen3:14b-q4_k_m", "qwen3%3A14b-q4_k_m"):
        told = await catalogue.get(f"{BASE}/{path}")
        assert (told.status, told.json) == (200, listed)
        assert (
            await catalogue.get(f"{BASE}/{path}", If_None_Match=told.headers["etag"])
        ).status == 304
    assert listed["display_name"] == "Qwen3 14B"
    assert listed["revision"] == DIGEST


async def test_case_24_slashes_in_an_id(catalogue: RunningCatalogue) -> None:
    for path in ("org%2Femb%3A1", "org/emb:1"):
        told = await catalogue.get(f"{BASE}/{path}")
        assert (told.status, told.json["id"]) == (200, "org/emb:1")


async def test_case_25_an_id_is_decoded_once(catalogue: RunningCatalogue) -> None:
    assert_problem(await catalogue.get(f"{BASE}/org%252Femb:1"), "model_not_found", 404)


@pytest.mark.parametrize("name", ["nope", "qwen", "Qwen3%2014B", "QWEN3:14B-Q4_K_M"])
async def test_case_26_only_an_id_names_a_model(catalogue: RunningCatalogue, name: str) -> None:
    assert_problem(await catalogue.get(f"{BASE}/{name}"), "model_not_found", 404)


async def test_case_29_a_load_from_installed_to_ready(catalogue: RunningCatalogue) -> None:
    told = await catalogue.post(f"{BASE}/{A}/load")
    assert (told.status, told.json["id"], told.json["status"]) == (202, A, "loading")
    assert told.headers["location"] == told.headers["content-location"] == f"{BASE}/{A}"
    assert told.headers["retry-after"] == "1"
    assert told.headers["cache-control"] == "no-store"
    await catalogue.seen()
    assert (await catalogue.get(told.headers["location"])).json["status"] == "loading"
    catalogue.models.become(A, LoadState.LOADED)
    await catalogue.seen()
    assert await status_of(catalogue, A) == "ready"
    again = await catalogue.post(f"{BASE}/{A}/load")
    assert (again.status, again.json["status"]) == (200, "ready")
    assert "location" not in again.headers
    assert catalogue.models.starts == [A]


async def test_case_30_a_load_underway_is_not_begun_again(catalogue: RunningCatalogue) -> None:
    catalogue.models.become(L, LoadState.UNLOADED)
    await catalogue.post(f"{BASE}/{L}/load")
    told = await catalogue.post(f"{BASE}/{L}/load")
    assert (told.status, told.json["status"]) == (202, "loading")
    assert catalogue.models.starts == [L]


async def test_case_32_a_load_leaves_error(catalogue: RunningCatalogue) -> None:
    told = await catalogue.post(f"{BASE}/{X}/load")
    assert (told.status, told.json["status"]) == (202, "loading")
    assert "error" not in told.json
    catalogue.models.become(X, LoadState.LOADED)
    await catalogue.seen()
    assert await status_of(catalogue, X) == "ready"


BROKEN = {
    "reason": "EngineFailed",
    "message": "The engine could not open '/models/blobs/a.gguf' at 10.0.0.7:8080.",
}


async def test_case_33_a_load_that_fails(catalogue: RunningCatalogue) -> None:
    assert (await catalogue.post(f"{BASE}/{A}/load")).status == 202
    catalogue.models.become(A, LoadState.FAILED, error=BROKEN)
    await catalogue.seen()
    told = await catalogue.get(f"{BASE}/{A}")
    assert (told.status, told.json["status"]) == (200, "error")
    assert told.json["error"]["code"] == "model_load_failed"
    assert told.json["error"]["status"] == 503
    detail = told.json["error"]["detail"]
    assert detail.startswith("The engine could not open")
    assert "/models" not in detail
    assert "10.0.0.7" not in detail


async def test_case_34_a_failed_load_is_asked_for_again(catalogue: RunningCatalogue) -> None:
    await catalogue.post(f"{BASE}/{A}/load")
    catalogue.models.become(A, LoadState.FAILED, error=BROKEN)
    await catalogue.seen()
    told = await catalogue.post(f"{BASE}/{A}/load")
    assert (told.status, told.json["status"]) == (202, "loading")
    catalogue.models.become(A, LoadState.LOADED)
    await catalogue.seen()
    assert await status_of(catalogue, A) == "ready"
    assert catalogue.models.starts == [A, A]


async def test_case_36_loads_of_a_ready_and_of_an_unknown_model(
    catalogue: RunningCatalogue,
) -> None:
    told = await catalogue.post(LOAD_E)
    assert (told.status, told.json["status"]) == (200, "ready")
    assert_problem(await catalogue.post(f"{BASE}/nope/load"), "model_not_found", 404)
    assert catalogue.models.starts == []


async def test_case_38_an_unload_and_its_repetitions(catalogue: RunningCatalogue) -> None:
    for _ in range(2):
        told = await catalogue.post(UNLOAD_E)
        assert (told.status, told.json["id"], told.json["status"]) == (200, E, "unloading")
        await catalogue.seen()
    catalogue.models.become(E, LoadState.UNLOADED)
    await catalogue.seen()
    for _ in range(2):
        told = await catalogue.post(UNLOAD_E)
        assert (told.status, told.json["status"]) == (200, "installed")
    assert await status_of(catalogue, E) == "installed"


async def test_case_41_an_unload_of_an_unknown_model(catalogue: RunningCatalogue) -> None:
    assert_problem(await catalogue.post(f"{BASE}/nope/unload"), "model_not_found", 404)


async def test_case_47_a_key_is_optional(catalogue: RunningCatalogue) -> None:
    assert (await catalogue.post(f"{BASE}/{A}/load")).status == 202


async def test_case_48_a_key_gives_the_first_answer_again(catalogue: RunningCatalogue) -> None:
    first = await catalogue.post(f"{BASE}/{A}/load", Idempotency_Key='"k1"')
    assert (first.status, first.json["status"]) == (202, "loading")
    assert "idempotent-replayed" not in first.headers
    catalogue.models.become(A, LoadState.LOADED)
    await catalogue.seen()
    second = await catalogue.post(f"{BASE}/{A}/load", Idempotency_Key='"k1"')
    assert (second.status, second.raw) == (202, first.raw)
    assert second.headers["idempotent-replayed"] == "true"
    assert second.headers["location"] == first.headers["location"]
    assert catalogue.models.asked == [A]


@pytest.mark.parametrize("other", [f"{BASE}/{A}/unload", LOAD_E])
async def test_case_50_a_key_stands_for_one_request(
    catalogue: RunningCatalogue, other: str
) -> None:
    await catalogue.post(f"{BASE}/{A}/load", Idempotency_Key="k3")
    told = await catalogue.post(other, Idempotency_Key="k3")
    assert_problem(told, "idempotency_key_reused", 422)
    assert catalogue.models.asked == [A]


async def test_case_64_without_model_management() -> None:
    async with running_catalogue(managed=False) as catalogue:
        for action in ("load", "unload"):
            for model_id in (A, "nope"):
                told = await catalogue.post(f"{BASE}/{model_id}/{action}")
                assert_problem(told, "not_found", 404)
        assert (await catalogue.get()).status == 200
        assert (await catalogue.get(f"{BASE}/{A}")).status == 200
