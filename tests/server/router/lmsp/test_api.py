"""The routes over HTTP, beyond the cases: paths, bodies, keys, methods, HEAD, pages."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from pumas_crds.vocabulary import LoadState
from pumas_server.router.lmsp import api
from pumas_server.router.lmsp.problems import ProblemCode
from pumas_server.router.steering import Unsteerable
from support.catalogue import (
    BASE,
    A,
    C,
    E,
    RunningCatalogue,
    X,
    assert_problem,
    catalogued,
    running_catalogue,
)
from support.eventually import eventually


@pytest.mark.parametrize("query", ["", "?capability=chat", "?ready_only=true"])
async def test_head_is_get_without_a_body(catalogue: RunningCatalogue, query: str) -> None:
    for path in (BASE + query, f"{BASE}/{A}"):
        got, head = await catalogue.get(path), await catalogue.ask("HEAD", path)
        assert (head.status, head.raw) == (200, b"")
        assert head.headers == got.headers
        etag = got.headers["etag"]
        assert (await catalogue.ask("HEAD", path, If_None_Match=etag)).status == 304
    head = await catalogue.ask("HEAD", f"{BASE}/nope")
    assert (head.status, head.raw) == (404, b"")
    assert head.headers["content-type"] == "application/problem+json"


async def test_what_may_be_kept_of_a_read(catalogue: RunningCatalogue) -> None:
    for path in (BASE, f"{BASE}/{A}"):
        headers = (await catalogue.get(path)).headers
        assert headers["cache-control"] == "private, no-cache"
        assert headers["vary"] == "Authorization"


async def test_lines_of_if_none_match_are_one_list(catalogue: RunningCatalogue) -> None:
    etag = (await catalogue.get()).headers["etag"]
    assert (await catalogue.get(If_None_Match=['"x"', etag])).status == 304
    assert (await catalogue.get(If_None_Match=['"x"', "*"])).status == 200
    assert (await catalogue.get(If_None_Match=etag.strip('W/"'))).status == 200


@pytest.mark.parametrize(
    "path",
    ["", "org", "%FF", "%00", "a%20", "%2E%2E", "%2E%2E/x", f"{A}/", "%2F", "%252F", "x" * 999],
)
async def test_paths_of_no_model(catalogue: RunningCatalogue, path: str) -> None:
    assert_problem(await catalogue.get(f"{BASE}/{path}"), "model_not_found", 404)
    assert_problem(await catalogue.post(f"{BASE}/{path}/load"), "model_not_found", 404)
    assert catalogue.models.asked == []


async def test_a_line_break_in_a_path_is_not_passed_over(
    catalogue: RunningCatalogue,
) -> None:
    assert_problem(await catalogue.get(f"{BASE}%0A"), "not_found", 404)
    assert_problem(await catalogue.get(f"{BASE}/{A}%0A"), "model_not_found", 404)
    assert_problem(await catalogue.get(f"{BASE}/a%0Ab"), "not_found", 404)
    assert_problem(await catalogue.post(f"{BASE}/{A}%0A/load"), "not_found", 404)
    assert_problem(await catalogue.post(f"{BASE}/{A}/load%0A"), "not_found", 404)
    assert catalogue.models.asked == []


async def test_models_may_be_named_as_actions_are() -> None:
    records = (catalogued("load"), catalogued("a/load"), catalogued("a"))
    async with running_catalogue(*records) as catalogue:
        for path, model_id in (
            ("load/load", "load"),
            ("a/load/load", "a/load"),
            ("a%2Fload/load", "a/load"),
            ("a/load", "a"),
        ):
            told = await catalogue.post(f"{BASE}/{path}")
            assert (told.status, told.json["id"]) == (202, model_id)
        assert (await catalogue.get(f"{BASE}/a/load")).json["id"] == "a/load"
        assert (await catalogue.get(f"{BASE}/load")).json["id"] == "load"


async def test_the_place_of_a_model_with_slashes(catalogue: RunningCatalogue) -> None:
    catalogue.models.become(E, LoadState.UNLOADED)
    told = await catalogue.post(f"{BASE}/org/emb:1/load")
    assert told.headers["location"] == f"{BASE}/org%2Femb:1"
    assert (await catalogue.get(told.headers["location"])).json["id"] == E


@pytest.mark.parametrize("body", [b"", b"{}", b" { } \n"])
@pytest.mark.parametrize("action", ["load", "unload"])
async def test_bodies_that_say_nothing(
    catalogue: RunningCatalogue, action: str, body: bytes
) -> None:
    told = await catalogue.post(f"{BASE}/{C}/{action}", body)
    assert told.status == (202 if action == "load" else 200)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b" ", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"null", "not a JSON object"),
        (b"{", "not JSON"),
        (b"\xff", "not UTF-8"),
        (b'{"force": true}', "unknown field `force`"),
        (b"{}{}", "not JSON"),
        (b" " * 1025, "more than 1024 bytes"),
        (b" " * 100_000, "more than 1024 bytes"),
    ],
    ids=["blank", "list", "null", "half", "bytes", "member", "two", "long", "longer"],
)
async def test_bodies_that_are_refused(
    catalogue: RunningCatalogue, body: bytes, words: str
) -> None:
    problem = assert_problem(await catalogue.post(f"{BASE}/{A}/load", body), "invalid_request", 400)
    assert words in problem["detail"]
    assert catalogue.models.asked == []


async def test_keys_that_are_refused_and_keep_nothing(catalogue: RunningCatalogue) -> None:
    path = f"{BASE}/{A}/load"
    for key in ("", '"', "a b", "x" * 256, ["a", "a"]):
        problem = assert_problem(
            await catalogue.post(path, Idempotency_Key=key), "invalid_request", 400
        )
        assert problem["param"] == "Idempotency-Key"
    # Nor does a body that is refused use a key up.
    assert (await catalogue.post(path, b"[]", Idempotency_Key="k")).status == 400
    assert "idempotent-replayed" not in (await catalogue.post(path, Idempotency_Key="k")).headers


async def test_a_key_is_the_same_with_and_without_quotes_and_with_any_empty_body(
    catalogue: RunningCatalogue,
) -> None:
    first = await catalogue.post(f"{BASE}/org%2Femb%3A1/unload", Idempotency_Key='"k"')
    again = await catalogue.post(f"{BASE}/org/emb:1/unload", b"{}", Idempotency_Key="k")
    assert (again.status, again.raw) == (200, first.raw)
    assert again.headers["idempotent-replayed"] == "true"


async def test_a_problem_that_is_kept_is_given_again_as_it_was(
    catalogue: RunningCatalogue,
) -> None:
    first = await catalogue.post(f"{BASE}/nope/load", Idempotency_Key="k")
    catalogue.models.put(catalogued("nope"))
    await catalogue.seen()
    again = await catalogue.post(f"{BASE}/nope/load", Idempotency_Key="k")
    assert_problem(again, "model_not_found", 404)
    assert again.raw == first.raw
    assert again.headers["idempotent-replayed"] == "true"
    assert (await catalogue.post(f"{BASE}/nope/load", Idempotency_Key="k2")).status == 202


async def test_the_same_at_once_is_told_to_wait(catalogue: RunningCatalogue) -> None:
    catalogue.models.pass_on.clear()
    path = f"{BASE}/{A}/load"
    first = asyncio.create_task(catalogue.post(path, Idempotency_Key="k"))
    await eventually(lambda: catalogue.models.asked, "the first begins")
    told = await catalogue.post(path, Idempotency_Key="k")
    assert_problem(told, "idempotency_in_progress", 409)
    assert told.headers["retry-after"] == "1"
    catalogue.models.pass_on.set()
    assert (await first).status == 202


async def test_what_cannot_be_done_now_is_503(catalogue: RunningCatalogue) -> None:
    catalogue.models.fault = Unsteerable("The API server does not answer.")
    for action in ("load", "unload"):
        told = await catalogue.post(f"{BASE}/{A}/{action}", Idempotency_Key="k-" + action)
        problem = assert_problem(told, "unavailable", 503, "unknown")
        assert problem["detail"] == "The API server does not answer."
        assert told.headers["retry-after"] == "1"
    catalogue.models.fault = None
    told = await catalogue.post(f"{BASE}/{A}/load", Idempotency_Key="k-load")
    assert told.status == 202
    assert "idempotent-replayed" not in told.headers


async def test_what_was_never_begun_is_said_to_have_had_no_effect(
    catalogue: RunningCatalogue,
) -> None:
    catalogue.models.fault = Unsteerable("this router may not load models", begun=False)
    told = await catalogue.post(f"{BASE}/{A}/load")
    assert_problem(told, "unavailable", 503, "not_admitted")


async def test_a_fault_of_ours_while_reading_had_no_effect(
    catalogue: RunningCatalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(raw: bytes) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(api, "read_query", fail)
    assert_problem(await catalogue.get(), "internal_error", 500, "not_admitted")


async def test_a_fault_of_ours_is_a_problem_too(
    catalogue: RunningCatalogue, caplog: pytest.LogCaptureFixture
) -> None:
    catalogue.models.fault = RuntimeError("secret words")
    told = await catalogue.post(f"{BASE}/{A}/load")
    assert_problem(told, "internal_error", 500, "unknown")
    assert b"secret" not in told.raw
    faults = [r for r in caplog.records if r.levelno >= logging.ERROR]
    assert [r.getMessage() for r in faults] == ["a request failed inside the router"]
    catalogue.models.fault = None
    assert (await catalogue.post(f"{BASE}/{A}/load")).status == 202


async def test_before_the_first_listing_nothing_is_said_of_models(
    catalogue: RunningCatalogue,
) -> None:
    workers = catalogue.running.router.workers
    workers.listed = False
    for path in (BASE, f"{BASE}/{A}", f"{BASE}/nope"):
        told = await catalogue.get(path)
        assert_problem(told, "unavailable", 503)
        assert told.headers["retry-after"] == "1"
    told = await catalogue.post(f"{BASE}/nope/load", Idempotency_Key="k")
    assert_problem(told, "unavailable", 503)
    workers.listed = True
    assert_problem(
        await catalogue.post(f"{BASE}/nope/load", Idempotency_Key="k"), "model_not_found", 404
    )
    assert (await catalogue.get()).status == 200


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", BASE, "GET, HEAD"),
        ("OPTIONS", BASE, "GET, HEAD"),
        ("DELETE", f"{BASE}/{A}", "GET, HEAD"),
        ("POST", f"{BASE}/{A}", "GET, HEAD"),
        ("POST", f"{BASE}/load", "GET, HEAD"),
        ("PUT", f"{BASE}/{A}/load", "POST"),
        ("DELETE", f"{BASE}/org/emb:1/unload", "POST"),
        ("POST", "/lmsp/v1/problems/not_found", "GET, HEAD"),
        ("PROPFIND", f"{BASE}/{A}/load", "POST"),
        ("GET", f"{BASE}/{A}/load", "POST"),
        ("GET", f"{BASE}/org/emb:1/unload", "POST"),
        ("GET", f"{BASE}/org%2Femb%3A1/unload", "POST"),
    ],
)
async def test_other_methods(
    catalogue: RunningCatalogue, method: str, path: str, allowed: str
) -> None:
    told = await catalogue.ask(method, path)
    problem = assert_problem(told, "method_not_allowed", 405)
    assert told.headers["allow"] == allowed
    assert problem["detail"] == f"this route takes {allowed}"


async def test_reading_an_action_of_no_model_finds_no_model(catalogue: RunningCatalogue) -> None:
    for path in ("nope/load", "load", f"{A}/reload", f"{A}/load/load"):
        assert_problem(await catalogue.get(f"{BASE}/{path}"), "model_not_found", 404)
    catalogue.models.put(catalogued(f"{A}/load"))
    await catalogue.seen()
    assert (await catalogue.get(f"{BASE}/{A}/load")).json["id"] == f"{A}/load"


async def test_reading_an_action_where_models_are_not_managed_finds_no_model() -> None:
    async with running_catalogue(managed=False) as catalogue:
        assert_problem(await catalogue.get(f"{BASE}/{A}/load"), "model_not_found", 404)


async def test_post_is_not_allowed_where_models_are_not_managed() -> None:
    async with running_catalogue(managed=False) as catalogue:
        told = await catalogue.ask("PUT", f"{BASE}/{A}/load")
        assert_problem(told, "method_not_allowed", 405)
        assert told.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    "path",
    ["/lmsp/", "/lmsp/v1", "/lmsp/v1/", "/lmsp/v2/models", "/lmsp/v1/models%20", "/lmsp/%00"],
)
async def test_other_paths(catalogue: RunningCatalogue, path: str) -> None:
    for method in ("GET", "POST"):
        assert_problem(await catalogue.ask(method, path), "not_found", 404)


@pytest.mark.parametrize("code", ProblemCode)
async def test_the_type_of_a_problem_is_a_page(
    catalogue: RunningCatalogue, code: ProblemCode
) -> None:
    told = await catalogue.get(f"/lmsp/v1/problems/{code}")
    assert (told.status, told.raw.decode()) == (200, code.page)
    assert told.headers["content-type"].startswith("text/plain")
    assert (await catalogue.ask("HEAD", f"/lmsp/v1/problems/{code}")).status == 200


async def test_the_type_in_a_model_is_a_page(catalogue: RunningCatalogue) -> None:
    error: dict[str, Any] = (await catalogue.get(f"{BASE}/{X}")).json["error"]
    assert (await catalogue.get(error["type"])).status == 200
    assert_problem(await catalogue.get("/lmsp/v1/problems/nope"), "not_found", 404)


async def test_ids_of_problems_are_their_own(catalogue: RunningCatalogue) -> None:
    told = [await catalogue.get(f"{BASE}/nope") for _ in range(2)]
    assert told[0].json["instance"] != told[1].json["instance"]


async def test_a_caller_that_leaves_does_not_undo_a_load(catalogue: RunningCatalogue) -> None:
    catalogue.models.pass_on.clear()
    async with catalogue.running.raw(f"{BASE}/{A}/load", b""):
        await eventually(lambda: catalogue.models.asked, "the load begins")
    catalogue.models.pass_on.set()
    await eventually(lambda: catalogue.models.starts, "the load goes on")
    assert catalogue.models.starts == [A]


async def test_routers_agree_whatever_they_have_seen(catalogue: RunningCatalogue) -> None:
    """Nobody answers at the address of the ready model; the catalogue asks nobody."""
    told = json.loads((await catalogue.get(f"{BASE}/org%2Femb%3A1")).raw)
    assert told["status"] == "ready"
    assert not any(row.targets for row in catalogue.running.router.workers.catalog.rows)


async def test_a_body_that_does_not_come_is_not_waited_for(
    catalogue: RunningCatalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "BODY_SECONDS", 0.1)
    path = "/lmsp/v1/models/cold/load"
    async with catalogue.running.raw(path, b"{", announced=2) as (reader, _):
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        assert answer.startswith(b"HTTP/1.1 400") and b"application/problem+json" in answer
    async with catalogue.running.raw(path, b"", announced=10**12) as (reader, _):
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        assert answer.startswith(b"HTTP/1.1 400"), "it is not waited for at all"
