"""One table: every route, method and status of the document, provoked over real sockets.

Each answer is held against the document: content type, schema (closed here: nothing undocumented is
answered), headers. The table, the document and the application's own routes are the same set.
"""

from __future__ import annotations

import ast
import inspect
import json
import warnings
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jsonschema
import pytest
import pytest_asyncio
from fastapi.openapi.utils import get_openapi
from starlette.routing import Route
from yarl import URL

from pumas_crds.vocabulary import LoadState
from pumas_server.contract.bounds import MAX_REQUEST_BYTES
from pumas_server.contract.errors import Code
from pumas_server.router import openai_api, openai_refusals
from pumas_server.router.access import ANONYMOUS
from pumas_server.router.forwarded_routes import ROUTES
from pumas_server.router.lmsp.action import Action
from pumas_server.router.lmsp.idempotency_key import fingerprint
from pumas_server.router.lmsp.memory_records import MemoryRecords
from pumas_server.router.openapi import FORWARDED_STATUSES, OPERATION_STATUSES, build_openapi
from support.coherent import MODELS, answer_coherently, coherent_models
from support.routers import SHARED_LOOP, RunningRouter, chat_operation, records, running_router
from support.senses import image_part, said
from support.upstream import Conversation, Script, ScriptedUpstream

pytestmark = SHARED_LOOP

DOCUMENT = build_openapi("1", ROUTES)
METHODS = {"get", "head", "post", "put", "patch", "delete", "options", "trace"}
BIG = -1
"""In place of a body: one byte over the limit is announced."""


async def fail(talk: Conversation) -> None:
    talk.reset()


@dataclass(frozen=True)
class Probe:
    """A request, and the status that it must get."""

    method: str
    route: str
    status: int
    path: str = ""
    body: Any = None
    script: Script = answer_coherently
    around: Callable[[RunningRouter, bool], None] = lambda running, begin: None
    headers: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.method} {self.path or self.route} {self.status}"


def draining(running: RunningRouter, begin: bool) -> None:
    if begin:
        running.router.drain()
    else:
        running.router.accepting = True


def unlisted(running: RunningRouter, begin: bool) -> None:
    running.router.workers.listed = not begin


def read(route: str, status: int, path: str = "", **more: Any) -> list[Probe]:
    return [Probe(method, route, status, path, **more) for method in ("get", "head")]


def operation(status: int, script: Script = answer_coherently, **changes: Any) -> Probe:
    return Probe("post", "/v1/model-operations", status, "", chat_operation(**changes), script)


#: A body of each forwarded route, for a model that serves it.
WELL_FORMED: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "llm", "messages": []},
    "/v1/completions": {"model": "llm", "prompt": "x"},
    "/v1/embeddings": {"model": "embedder", "input": ["a", "b"]},
    "/v1/rerank": {"model": "ranker", "query": "q", "documents": ["a"]},
    "/v1/responses": {"model": "llm", "input": "x"},
    "/v1/messages": {"model": "llm", "messages": [], "max_tokens": 1},
    "/v1/messages/count_tokens": {"model": "llm", "messages": []},
    "/v1/audio/transcriptions": {"model": "senses", "response_format": "json"},
    "/v1/images/generations": {"model": "painter", "prompt": "x"},
}


def forwarded(route: str) -> list[Probe]:
    body = WELL_FORMED[route]
    form = ROUTES[route].body == "multipart/form-data"

    def sent(status: int, body: dict[str, Any], **more: Any) -> Probe:
        if not form:
            return Probe("post", route, status, "", body, **more)
        kind = {"Content-Type": "multipart/form-data; boundary=x"}
        return Probe("post", route, status, "", written(body), headers=kind, **more)

    def of(status: int, model: str, **more: Any) -> Probe:
        return sent(status, body | {"model": model}, **more)

    # At rest nothing tells that a model hears.
    model = "llm" if form else body["model"]
    return [
        sent(200, body),
        sent(200, body | {"stream": True}),
        Probe("post", route, 400, "", b"no JSON"),
        of(400, "llm" if body["model"] != "llm" else "ranker"),
        of(404, "nobody"),
        of(409, "dup"),
        of(409, f"unloaded-{model}"),
        Probe("post", route, 413, "", BIG),
        of(500, f"refused-{model}"),
        sent(502, body, script=fail),
        of(503, f"cold-{model}"),
        of(503, f"crashed-{model}"),
    ]


def written(fields: dict[str, Any]) -> bytes:
    """A form with a clip."""
    lines = [
        f'Content-Disposition: form-data; name="{name}"\r\n\r\n'
        + (value if isinstance(value, str) else json.dumps(value))
        for name, value in fields.items()
    ]
    lines.append('Content-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\nRIFF')
    return ("".join(f"--x\r\n{line}\r\n" for line in lines) + "--x--\r\n").encode()


def text_input(kind: str = "text", **members: Any) -> dict[str, Any]:
    return {"kind": kind, **(members or {"text": "a"})}


QUESTIONS = {
    "a": {"type": "choice", "instructions": "i", "criteria": {"x": "is x", "y": None}},
    "b": {"type": "score", "instructions": "i", "criteria": ["low", "high"]},
    "c": {"type": "noul", "instructions": "i"},
}

MODELS_OF_LMSP = "/lmsp/v1/models"
ONE_OF_LMSP = f"{MODELS_OF_LMSP}/{{model_id}}"
PAGE_OF_LMSP = "/lmsp/v1/problems/{code}"
ACTIONS = tuple(f"{ONE_OF_LMSP}/{action}" for action in Action)
KNOWN = {"If-None-Match": "*"}


def acted(route: str) -> list[Probe]:
    def of(status: int, model: str = "llm", key: str = "", **more: Any) -> Probe:
        path = route.replace("{model_id}", model)
        return Probe(
            "post", route, status, path, headers={"Idempotency-Key": key} if key else {}, **more
        )

    return [
        of(200, body={}),
        *([of(202, "unloaded-llm", body={})] if route.endswith("/load") else []),
        of(400, body=[]),
        of(404, "nobody", body={}),
        of(409, key=f"busy-{route.rpartition('/')[2]}", body={}),
        of(422, key="used", body={}),
        of(503, body={}, around=unlisted),
    ]


class Willing:
    """A LoadControl: models whose name says that they are unloaded are loaded for long."""

    async def load(self, model_uid: str) -> LoadState:
        return LoadState.LOADING if model_uid.startswith("unloaded") else LoadState.LOADED

    async def unload(self, model_uid: str) -> LoadState:
        return LoadState.UNLOADED


async def keyed_requests() -> MemoryRecords:
    """Keys that are being used, for ever, and one that stands for something else."""
    kept = MemoryRecords(clock=lambda: 0.0)
    for action in Action:
        asked = fingerprint("POST", action, "llm", {})
        await kept.claim(ANONYMOUS.name, f"busy-{action}", asked)
    await kept.claim(ANONYMOUS.name, "used", "for another request")
    return kept


TABLE: list[Probe] = [
    *read("/v1/served-models", 200),
    *read("/v1/served-models", 400, "/v1/served-models?model=llm"),
    *read("/v1/capabilities", 200, "/v1/capabilities?model=llm"),
    *read("/v1/capabilities", 200, "/v1/capabilities?model=dup&profile=p1"),
    *read("/v1/capabilities", 400, "/v1/capabilities"),
    *read("/v1/capabilities", 400, "/v1/capabilities?model=llm&alias=x"),
    *read("/v1/capabilities", 404, "/v1/capabilities?model=nobody"),
    *read("/v1/capabilities", 409, "/v1/capabilities?model=dup"),
    *read("/v1/models", 200),
    *read("/v1/models/{model_id}", 200, "/v1/models/llm"),
    *read("/v1/models/{model_id}", 200, "/v1/models/org%2Fname"),
    *read("/v1/models/{model_id}", 404, "/v1/models/nobody"),
    *read(MODELS_OF_LMSP, 200),
    *read(MODELS_OF_LMSP, 304, headers=KNOWN),
    *read(MODELS_OF_LMSP, 400, f"{MODELS_OF_LMSP}?ready_only=1"),
    *read(MODELS_OF_LMSP, 503, around=unlisted),
    *read(ONE_OF_LMSP, 200, f"{MODELS_OF_LMSP}/org%2Fname"),
    *read(ONE_OF_LMSP, 200, f"{MODELS_OF_LMSP}/refused-llm"),
    *read(ONE_OF_LMSP, 304, f"{MODELS_OF_LMSP}/llm", headers=KNOWN),
    *read(ONE_OF_LMSP, 404, f"{MODELS_OF_LMSP}/nobody"),
    *read(ONE_OF_LMSP, 503, f"{MODELS_OF_LMSP}/llm", around=unlisted),
    *(probe for route in ACTIONS for probe in acted(route)),
    *read(PAGE_OF_LMSP, 200, "/lmsp/v1/problems/not_found"),
    *read(PAGE_OF_LMSP, 404, "/lmsp/v1/problems/nothing"),
    *read("/openapi.json", 200),
    *read("/healthz", 200),
    *read("/metrics", 200),
    *read("/readyz", 200),
    *read("/readyz", 503, around=draining),
    operation(200),
    operation(200, stream=True),
    operation(200, capability="text_generation", input=text_input()),
    operation(
        200,
        model="embedder",
        capability=...,
        options=...,
        output="embeddings_float32",
        input=text_input("text_batch", texts=["a", "b"]),
    ),
    operation(
        200,
        model="ranker",
        capability=...,
        options=...,
        output="relevance_scores",
        input=text_input("rerank", query="q", documents=["a", "b"]),
    ),
    operation(
        200,
        model="judge",
        capability=...,
        options=...,
        output="decisions",
        input=text_input("decision", state={"any": [1]}, questions=QUESTIONS),
    ),
    operation(
        200,
        model="painter",
        capability=...,
        options={"kind": "image_generation", "width": 16, "height": 12},
        output="png_base64",
        input=text_input(),
    ),
    operation(200, model="senses", capability=..., options=..., input=said(image_part())),
    operation(400, unknown=1),
    operation(400, contract_version=2),
    operation(404, model="nobody"),
    operation(409, model="dup"),
    operation(409, capability=..., input=text_input()),
    Probe("post", "/v1/model-operations", 413, "", BIG),
    operation(422, capability=..., output="relevance_scores"),
    operation(502, fail),
    operation(502, fail, stream=True),
    operation(503, model="cold-llm"),
    operation(503, model="refused-llm"),
    operation(503, model="unloaded-llm"),
    *(probe for route in ROUTES for probe in forwarded(route)),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(answer_coherently, models=MODELS).serving() as scripted:
        yield scripted


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(upstream: ScriptedUpstream) -> AsyncIterator[RunningRouter]:
    models = coherent_models(upstream.url)
    keyed = await keyed_requests()
    async with running_router(*models, ready=False, load_control=Willing(), keyed=keyed) as router:
        await router.router.workers.until(
            lambda c: (
                len(c.rows) == len(models)
                and all(row.targets or row.error or row.load_state == "unloaded" for row in c.rows)
            )
        )
        yield router


def documented() -> set[tuple[str, str, int]]:
    return {
        (method, route, int(status))
        for route, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
        for status in operation["responses"]
        if status != "default"
    }


async def test_the_table_and_the_document_are_the_same() -> None:
    assert {(probe.method, probe.route, probe.status) for probe in TABLE} == documented()


async def test_the_document_and_the_application_are_the_same(running: RunningRouter) -> None:
    cold = running.router._cold.routes
    with warnings.catch_warnings():
        # FastAPI's own document, made only to list its routes, wants an id for each method.
        warnings.simplefilter("ignore", UserWarning)
        listed = get_openapi(title="", version="", routes=cold)["paths"]
    real = {(method, path) for path, methods in listed.items() for method in methods}
    hot = {("post", path) for path in running.router._hot}
    plain = [route for route in cold if isinstance(route, Route)]
    named = {
        (method.lower(), route.path)
        for route in plain
        for method in route.methods or ()
        if not hasattr(route, "response_model")
    }
    assert named == hot
    assert real | hot == {(method, route) for method, route, _ in documented()}


@pytest.mark.parametrize("route", sorted(DOCUMENT["paths"]))
async def test_other_methods_are_refused(running: RunningRouter, route: str) -> None:
    known = {method for method, path, _ in documented() if path == route}
    error = "Problem" if route.startswith("/lmsp/") else "OpenAiError"
    path = route.replace("{model_id}", "llm").replace("{code}", "not_found")
    for method in METHODS:
        async with running.client.request(method, path) as answer:
            refused = method not in known
            assert (answer.status == 405) is refused, method
            if refused:
                allowed = {word.strip().lower() for word in answer.headers["allow"].split(",")}
                assert allowed == known
                if method != "head":
                    check_schema(await answer.json(), {"$ref": f"#/components/schemas/{error}"})


async def test_no_route_of_the_router_answers_another_status() -> None:
    """Those of its own refusals and those of all codes, where a code can come up."""
    raised = {
        constant.value
        for module in (openai_api, openai_refusals)
        for call in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "RouteError" and call.args
        for constant in ast.walk(call.args[0])
        if isinstance(constant, ast.Constant)
    }
    assert raised == {400, 409, 500, 503}
    # No route that forwards resolves an operation, which is the only cause of 422.
    coded = {code.status for code in Code} - {Code.UNSUPPORTED_MODALITY.status}
    assert raised | coded | {200} == FORWARDED_STATUSES
    assert {200} | {code.status for code in Code} == OPERATION_STATUSES


@pytest.mark.parametrize("probe", TABLE, ids=str)
async def test_each_answer_is_as_documented(
    running: RunningRouter, upstream: ScriptedUpstream, probe: Probe
) -> None:
    upstream.script = probe.script
    probe.around(running, True)
    try:
        status, headers, raw = await ask(running, probe)
    finally:
        probe.around(running, False)
    assert status == probe.status, raw
    response = DOCUMENT["paths"][probe.route][probe.method]["responses"][str(status)]
    for name, header in response.get("headers", {}).items():
        if header.get("required") or name in headers:
            check_schema(headers[name], header["schema"])
    if probe.method == "head" or status == 304:
        assert raw == b""
        assert "content" not in response
        assert status == 304 or int(headers["content-length"]) > 0
        return
    kind = headers["content-type"].partition(";")[0]
    schema = response["content"][kind].get("schema", {})
    match kind:
        case "application/json" | "application/problem+json":
            check_schema(json.loads(raw), schema)
        case "text/event-stream" if probe.route == "/v1/model-operations":
            for name, record in records(raw):
                check_schema({"event": name, "data": json.dumps(record)}, schema)
                check_schema(record, schema["properties"]["data"]["contentSchema"])
        case "text/event-stream":
            assert raw.endswith(b"data: [DONE]\n\n")
        case _:
            check_schema(raw.decode(), schema)
    await running.idle()


async def ask(running: RunningRouter, probe: Probe) -> tuple[int, Any, bytes]:
    """Send a probe; status, header (names in lower case) and body."""
    if probe.body is BIG:
        announced = MAX_REQUEST_BYTES + 1
        async with running.raw(probe.route, b"", announced=announced) as (reader, _):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
            lines = [line.partition(":") for line in head[1:] if line]
            headers = {name.title(): value.strip() for name, _, value in lines}
            body = await reader.readexactly(int(headers["Content-Length"]))
            lower = {name.lower(): value for name, value in headers.items()}
            return int(head[0].split()[1]), _AnyCase(lower), body
    if probe.method == "post":
        return await running.post(probe.path or probe.route, probe.body, **probe.headers)
    url = URL(probe.path or probe.route, encoded=True)
    async with running.client.request(probe.method, url, headers=probe.headers) as answer:
        return answer.status, answer.headers, await answer.read()


class _AnyCase(dict[str, str]):
    def __getitem__(self, name: str) -> str:
        return super().__getitem__(name.lower())


def check_schema(value: Any, schema: dict[str, Any]) -> None:
    """Validate against the document, whose answers are closed here."""
    jsonschema.Draft202012Validator({**schema, "components": CLOSED["components"]}).validate(value)


def _closed(node: Any) -> Any:
    if isinstance(node, list):
        return [_closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    made = {key: _closed(value) for key, value in node.items()}
    return made | {"additionalProperties": False} if "properties" in node else made


CLOSED = _closed(DOCUMENT)
