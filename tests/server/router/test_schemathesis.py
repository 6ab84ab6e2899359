"""schemathesis against the running router: what the committed document promises, generated.

Every operation, HEAD too, with data that fits the document and data that does not, over a real
socket. Models' names are narrowed to those that are served here, so that what is well-formed gets
as far as the provider, which answers every route coherently.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.config import SchemathesisConfig

from pumas_crds.vocabulary import LoadState
from support.background import in_background
from support.coherent import MODELS, answer_coherently, coherent_models
from support.routers import RunningRouter, chat_operation, running_router
from support.upstream import ScriptedUpstream

FILE = Path(__file__).parents[3] / "docs" / "openapi.json"
SERVED = {
    "/v1/chat/completions": ["llm"],
    "/v1/completions": ["llm"],
    "/v1/embeddings": ["embedder"],
    "/v1/rerank": ["ranker"],
    "/v1/responses": ["llm"],
    "/v1/messages": ["llm"],
    "/v1/messages/count_tokens": ["llm"],
    "/v1/audio/transcriptions": ["senses"],
    "/v1/images/generations": ["painter"],
}


def narrowed() -> dict[str, Any]:
    """The committed document, whose `model` is one of those that are served here."""
    document = json.loads(FILE.read_text())
    operation = document["components"]["schemas"]["Operation"]["properties"]
    operation["model"]["enum"] = ["llm", "embedder", "ranker", "judge", "painter", "senses"]
    operation["profile"] = {"type": "null"}
    operations = document["paths"]["/v1/model-operations"]["post"]
    content = operations["requestBody"]["content"]["application/json"]
    content["examples"] = {name: {"value": value} for name, value in well_formed().items()}
    for method in ("get", "head"):
        query = document["paths"]["/v1/capabilities"][method]["parameters"]
        query[0]["schema"]["enum"] = ["llm", "dup", "nobody"]
        query[1]["schema"] = {"enum": ["default", "p1"]}
        place = document["paths"]["/v1/models/{model_id}"][method]["parameters"]
        place[0]["schema"]["enum"] = ["llm", "org/name", "nobody"]
    for path, methods in document["paths"].items():
        if path.startswith("/lmsp/"):
            for asked in methods.values():
                narrow_path(asked.get("parameters", []))
    for path, models in SERVED.items():
        (body,) = document["paths"][path]["post"]["requestBody"]["content"].values()
        body["schema"]["properties"]["model"]["enum"] = models
    return document


def narrow_path(parameters: list[dict[str, Any]]) -> None:
    """Ids of models and codes of problems that there are, and that there are not."""
    for each in parameters:
        if each["in"] == "path":
            there = {"model_id": ["llm", "org/name"], "code": ["not_found"]}[each["name"]]
            each["schema"]["enum"] = [*there, "nobody"]


class Willing:
    """A LoadControl that has nothing to do."""

    async def load(self, model_uid: str) -> LoadState:
        return LoadState.LOADING if "/" in model_uid else LoadState.LOADED

    async def unload(self, model_uid: str) -> LoadState:
        return LoadState.UNLOADED


def well_formed() -> dict[str, Any]:
    """An operation for every kind of result, and one of a capability that is not here."""
    noul = {"type": "noul", "instructions": "i"}
    score = {"type": "score", "instructions": "i", "criteria": ["low", "high"]}
    choice = {"type": "choice", "instructions": "i", "criteria": {"x": None, "y": "is y"}}
    asked = {"a": noul, "b": score, "c": choice}
    size = {"kind": "image_generation", "width": 64, "height": 64}
    return {
        "chat": chat_operation(),
        "stream": chat_operation(stream=True),
        "embedding": chat_operation(
            model="embedder",
            capability="text_embedding",
            input={"kind": "text", "text": "a"},
            output="embeddings_float32",
            options={"kind": "embeddings", "dimensions": 2},
        ),
        "rerank": chat_operation(
            model="ranker",
            capability="rerank",
            input={"kind": "rerank", "query": "q", "documents": ["a", "b"]},
            output="relevance_scores",
            options={"kind": "rerank", "top_n": 1},
        ),
        "decision": chat_operation(
            model="judge",
            capability="decision",
            input={"kind": "decision", "state": "s", "questions": asked},
            output="decisions",
            options={"kind": "decision"},
        ),
        "image": chat_operation(
            capability="image_generation",
            input={"kind": "text", "text": "a"},
            output="png_base64",
            options=size,
        ),
    }


def configured() -> SchemathesisConfig:
    return SchemathesisConfig.from_dict(
        {
            "generation": {"deterministic": True, "max-examples": 25, "database": "none"},
            "checks": {
                # A capability that no model here has is not available: told, and documented.
                "not_a_server_error": {"expected-statuses": ["2xx", 304, "4xx", 503]},
                # Well-formed is not yet possible: 400, 409 and 422 are told of it too.
                "positive_data_acceptance": {"enabled": False},
                # 422: the generated keys of other requests come again.
                "negative_data_rejection": {"expected-statuses": [400, 404, 405, 422]},
            },
        }
    )


SCHEMA = schemathesis.openapi.from_dict(narrowed(), config=configured())
SEEN: dict[str, set[int]] = defaultdict(set)


@asynccontextmanager
async def everything() -> AsyncIterator[RunningRouter]:
    async with ScriptedUpstream(answer_coherently, models=MODELS).serving() as upstream:
        models = [r for r in coherent_models(upstream.url) if r.endpoints]
        ready = [r for r in models if "127.0.0.1:1/" not in r.endpoints[0].url + "/"]
        async with running_router(*ready, load_control=Willing()) as running:
            yield running
            await running.idle()


def reached() -> dict[str, set[int]]:
    """What the data of each operation must have been answered with, or it proves nothing."""
    wanted = {
        f"{method.upper()} {path}": {200, 400} if method == "post" else {200}
        for path, methods in narrowed()["paths"].items()
        for method in methods
    }
    wanted["POST /v1/model-operations"] |= {503}
    wanted["GET /v1/capabilities"] |= {400, 404, 409}
    wanted["GET /v1/models/{model_id}"] |= {404}
    wanted["GET /lmsp/v1/models"] |= {400}
    wanted["GET /lmsp/v1/models/{model_id}"] |= {404}
    wanted["POST /lmsp/v1/models/{model_id}/load"] |= {202, 404}
    return wanted


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    with in_background(everything) as running:
        yield f"http://127.0.0.1:{running.port}"
    wanted = reached()
    assert {name: wanted[name] - got for name, got in SEEN.items() if wanted[name] - got} == {}


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


def of(method: str, path: str) -> Any:
    """The test of one operation."""

    @SCHEMA.include(method=method, path=path).parametrize()
    @settings(deadline=None, suppress_health_check=list(HealthCheck))
    def keeps_its_promises(
        case: schemathesis.Case, base_url: str, session: requests.Session
    ) -> None:
        response = case.call_and_validate(base_url=base_url, session=session, timeout=10)
        SEEN[case.operation.label].add(response.status_code)

    return keeps_its_promises


# A function each: those of one function have one name, of which xdist would run the first alone.
for _path, _methods in narrowed()["paths"].items():
    for _method in _methods:
        _words = re.findall("[a-z]+", f"{_method} {_path}")
        globals()["_".join(["test", *_words])] = of(_method.upper(), _path)


def test_there_is_a_test_of_every_operation() -> None:
    assert len([name for name in globals() if name.startswith("test_")]) == len(reached()) + 1
