"""The OpenAPI document of the router, built from the contract's types. Pure.

Committed as `docs/openapi.json` and served at `/openapi.json`; a test holds it against the routes
that the application really has, both ways.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import models_json_schema

from pumas_server.contract.descriptors import Capabilities, ServedModels
from pumas_server.contract.errors import Code, Outcome
from pumas_server.contract.request import Operation

Json = dict[str, Any]

_REF = "#/components/schemas/{model}"

_STATUS_WORDS = {
    200: "Success",
    400: "The request does not match; nothing was sent to a provider",
    404: "No such model, or no such route",
    409: "Ambiguous, or not ready",
    413: "Over a limit",
    422: "No capability of the model does this",
    500: "The model failed to load for good",
    502: "The provider failed; the outcome says whether it had received the call",
    503: "Not available now; nothing was sent to a provider",
}


class ErrorMember(BaseModel):
    """The fixed error record."""

    code: Code
    outcome: Outcome
    message: str


class ErrorBody(BaseModel):
    """The body of every error of the contract's routes."""

    contract_version: Literal[1]
    request_id: str | None
    error: ErrorMember


class OperationResult(BaseModel):
    """A finite success; `result` is tagged by `kind`."""

    contract_version: Literal[1]
    request_id: str
    result: dict[str, Any]


class OpenAiErrorMember(BaseModel):
    """The OpenAI error record."""

    model_config = ConfigDict(extra="allow")
    message: str
    type: str
    code: str | int | None = None


class OpenAiError(BaseModel):
    """The body of an error that the router makes on the OpenAI routes."""

    error: OpenAiErrorMember


_SCHEMAS = (Operation, OperationResult, ErrorBody, OpenAiError, ServedModels, Capabilities)

#: Statuses of a contract operation: those of the codes, and success.
OPERATION_STATUSES = frozenset({200, *(code.status for code in Code)})
CAPABILITIES_STATUSES = frozenset({200, 400, 404, 409})
#: What the router itself answers on a forwarded route; a provider's own statuses pass as they are.
FORWARDED_STATUSES = frozenset({200, 400, 404, 409, 413, 500, 502, 503})


def build_openapi(version: str, forwarded: Iterable[str]) -> Json:
    """The document, for these forwarded routes."""
    _, schemas = models_json_schema([(m, "validation") for m in _SCHEMAS], ref_template=_REF)
    paths: Json = {
        "/v1/model-operations": {"post": _operations()},
        "/v1/served-models": _read("Every served model", {200: "ServedModels"}),
        "/v1/capabilities": _read(
            "What one model offers",
            {200: "Capabilities"} | dict.fromkeys(CAPABILITIES_STATUSES - {200}, "ErrorBody"),
            [_parameter("model", "query", required=True), _parameter("profile", "query")],
        ),
        "/v1/models": _read("Loaded models, as OpenAI clients expect them", {200: None}),
        "/v1/models/{model_id}": _read(
            "One loaded model",
            {200: None, 404: "OpenAiError"},
            [_parameter("model_id", "path", required=True)],
        ),
        "/healthz": _text("The process answers", (200,)),
        "/readyz": _text("Calls may be sent here", (200, 503)),
        "/metrics": _text("Counters and levels for Prometheus", (200,)),
        "/openapi.json": _read("This document", {200: None}),
    }
    paths |= {path: {"post": _forwarded(path)} for path in forwarded}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Pumas Serving", "version": version},
        "paths": paths,
        "components": {"schemas": schemas["$defs"]},
    }


def _operations() -> Json:
    responses = {
        str(status): _response(status, "ErrorBody") for status in sorted(OPERATION_STATUSES - {200})
    }
    success = _response(200, "OperationResult")
    success["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    return {
        "summary": "One typed operation, finite or streamed",
        "requestBody": {"required": True, "content": {"application/json": _schema("Operation")}},
        "responses": {"200": success, **responses},
    }


def _forwarded(path: str) -> Json:
    body = {
        "type": "object",
        "required": ["model"],
        "properties": {"model": {"type": "string"}, "stream": {"type": "boolean"}},
    }
    responses = {
        str(status): _response(status, "OpenAiError")
        for status in sorted(FORWARDED_STATUSES - {200})
    }
    return {
        "summary": f"Forwarded byte for byte to {path} of the model's engine",
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {
            "200": {
                "description": "The engine's answer",
                "content": {"application/json": {}, "text/event-stream": {}},
            },
            **responses,
            "default": {"description": "Whatever else the engine answers, byte for byte"},
        },
    }


def _read(
    summary: str, bodies: Mapping[int, str | None], parameters: list[Json] | None = None
) -> Json:
    """GET and HEAD of a route that answers JSON."""
    get: Json = {
        "summary": summary,
        "responses": {str(s): _response(s, bodies[s]) for s in sorted(bodies)},
    }
    head: Json = {
        "summary": f"{summary} (header only)",
        "responses": {str(s): {"description": _STATUS_WORDS[s]} for s in sorted(bodies)},
    }
    if parameters is not None:
        get["parameters"] = head["parameters"] = parameters
    return {"get": get, "head": head}


def _text(summary: str, statuses: tuple[int, ...]) -> Json:
    content = {"text/plain": {"schema": {"type": "string"}}}
    with_body = {str(s): {"description": _STATUS_WORDS[s], "content": content} for s in statuses}
    without = {str(s): {"description": _STATUS_WORDS[s]} for s in statuses}
    return {
        "get": {"summary": summary, "responses": with_body},
        "head": {"summary": f"{summary} (header only)", "responses": without},
    }


def _response(status: int, schema: str | None) -> Json:
    content = _schema(schema) if schema else {"schema": {"type": "object"}}
    return {
        "description": _STATUS_WORDS[status],
        "content": {"application/json": content},
    }


def _schema(name: str) -> Json:
    return {"schema": {"$ref": _REF.format(model=name)}}


def _parameter(name: str, place: str, *, required: bool = False) -> Json:
    return {"name": name, "in": place, "required": required, "schema": {"type": "string"}}
