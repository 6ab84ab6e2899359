"""The OpenAPI document of the router, built from the contract's types. Pure.

Committed as `docs/openapi.json` and served at `/openapi.json`. Tests hold it against the routes
that the application really has and against what they really answer, both ways.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, models_json_schema
from pydantic_core import core_schema

from pumas_server.contract.complaint import END
from pumas_server.contract.descriptors import Capabilities, ServedModels
from pumas_server.contract.errors import Code, Outcome
from pumas_server.contract.records import BLANKS
from pumas_server.contract.request import Operation
from pumas_server.router.answer_bodies import (
    ErrorBody,
    OpenAiError,
    OpenAiModel,
    OpenAiModels,
    OperationResult,
    StreamRecord,
)
from pumas_server.router.forwarded_routes import ForwardedRoute
from pumas_server.router.lmsp.openapi import TYPES as CATALOGUE_TYPES
from pumas_server.router.lmsp.openapi import catalogue_paths
from pumas_server.router.openapi_parts import REF, Json, get_and_head, parameter, schema_of

_ABOUT = (
    "Typed model operations (contract version 1), the OpenAI routes, discovery, and a model"
    " catalogue (section 5 of LMSP 1.0, whose errors are problems of RFC 9457). Request"
    " bodies are JSON whatever their Content-Type says, and closed: an unknown field is refused."
    " Answers are open: ignore fields and values that you do not know. JSON Schema cannot say all"
    " that is refused: duplicate fields, integers written as 1.0, nesting over 128, a model's name"
    " over 256 bytes, more than 30 seconds of audio. A 500 with code `internal_error` is a fault"
    " of the router itself and promised nowhere. On every route a header that does not end in time"
    " is answered 408, one over 64 KiB 431, a target over 8 KiB 414, what is not HTTP 400, and one"
    " connection too many 503: as a problem under /lmsp/ and as an OpenAiError elsewhere, with"
    " nothing sent to a provider and the connection closed."
)

_STATUS_WORDS = {
    200: "Success",
    400: "The request does not match; nothing was sent to a provider",
    404: "No such model; nothing was sent to a provider",
    409: "Ambiguous, or not ready; nothing was sent to a provider",
    413: "Over a limit; nothing was sent to a provider",
    422: "No capability of the model does this; nothing was sent to a provider",
    500: "The model failed to load for good; nothing was sent to a provider",
    502: "The provider failed; the outcome says whether it had received the call",
    503: "Not available now; nothing was sent to a provider",
}

_TYPES: tuple[tuple[type, JsonSchemaMode], ...] = (
    (Operation, "validation"),
    (OperationResult, "serialization"),
    (StreamRecord, "serialization"),
    (ErrorBody, "serialization"),
    (OpenAiError, "serialization"),
    (OpenAiModel, "serialization"),
    (OpenAiModels, "serialization"),
    (ServedModels, "serialization"),
    (Capabilities, "serialization"),
    *((answer, "serialization") for answer in CATALOGUE_TYPES),
)

#: Statuses of a contract operation: those of the codes, and success.
OPERATION_STATUSES = frozenset({200, *(code.status for code in Code)})
CAPABILITIES_STATUSES = frozenset({200, 400, 404, 409})
#: What the router itself answers on a forwarded route; a provider's own statuses pass as they are.
FORWARDED_STATUSES = frozenset({200, 400, 404, 409, 413, 500, 502, 503})


class _Schemas(GenerateJsonSchema):
    """JSON Schema that says what the wire says.

    Of a request, a member that may be absent has no default to speak of. Of an answer, a member
    without a value is left out and never null, and every other one is there.
    """

    def str_schema(self, schema: core_schema.StringSchema) -> Json:
        """ECMA's expressions have no other end than `$`, and it means the very end."""
        made = super().str_schema(schema)
        if made.get("pattern", "").endswith(END):
            made["pattern"] = made["pattern"].removesuffix(END) + "$"
        return made

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> Json:
        """See the class."""
        inner = schema["schema"]
        if schema.get("default", ...) is not None:
            return super().default_schema(schema)
        if self.mode == "serialization" and inner["type"] == "nullable":
            return self.generate_inner(inner["schema"])
        return self.generate_inner(inner)

    def field_is_required(
        self,
        field: core_schema.ModelField | core_schema.DataclassField | core_schema.TypedDictField,
        total: bool,
    ) -> bool:
        """See the class."""
        schema = field["schema"]
        if self.mode == "serialization" and schema["type"] == "default":
            return schema.get("default") is not None
        return super().field_is_required(field, total)


#: A version of OpenAPI without `itemSchema` describes a stream by one event of it.
_STREAM_EVENT: Json = {
    "description": "With `stream: true`: each event. `event` is the record's `kind`.",
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"enum": ["started", "delta", "completed", "failed"]},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {"$ref": REF.format(model="StreamRecord")},
        },
    },
}


def build_openapi(version: str, forwarded: Mapping[str, ForwardedRoute]) -> Json:
    """The document, for these forwarded routes."""
    _, schemas = models_json_schema(_TYPES, ref_template=REF, schema_generator=_Schemas)
    paths: Json = {
        "/v1/model-operations": {"post": _operations()},
        "/v1/served-models": _read("Every served model", {200: "ServedModels", 400: "ErrorBody"}),
        "/v1/capabilities": _read(
            "What one model offers",
            {200: "Capabilities"} | dict.fromkeys(CAPABILITIES_STATUSES - {200}, "ErrorBody"),
            [
                parameter("model", "query", {"minLength": 1}, required=True),
                parameter("profile", "query", {"pattern": f"[^{BLANKS}]"}),
            ],
        ),
        "/v1/models": _read("Loaded models, as OpenAI clients expect them", {200: "OpenAiModels"}),
        "/v1/models/{model_id}": _read(
            "One loaded model",
            {200: "OpenAiModel", 404: "OpenAiError"},
            [parameter("model_id", "path", {"minLength": 1}, required=True)],
        ),
        "/healthz": _text("The process answers", {200: "Success"}),
        "/readyz": _text("Calls may be sent here", {200: "Success", 503: "The router stops"}),
        "/metrics": _text("Counters and levels for Prometheus", {200: "Success"}),
        "/openapi.json": _read("This document", {200: None}),
    }
    paths |= catalogue_paths()
    paths |= {path: {"post": _forwarded(path, route.body)} for path, route in forwarded.items()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Pumas Serving", "version": version, "description": _ABOUT},
        "paths": paths,
        "components": {"schemas": schemas["$defs"]},
    }


def _operations() -> Json:
    responses = {
        str(status): _response(status, "ErrorBody") for status in sorted(OPERATION_STATUSES - {200})
    }
    success = _response(200, "OperationResult")
    success["content"]["text/event-stream"] = {"schema": _STREAM_EVENT}
    return {
        "summary": "One typed operation, finite or streamed",
        "requestBody": {"required": True, "content": {"application/json": schema_of("Operation")}},
        "responses": {"200": success, **responses},
    }


def _forwarded(path: str, written_as: str) -> Json:
    body = {
        "type": "object",
        "required": ["model"],
        "properties": {
            "model": {"type": "string", "minLength": 1},
            "stream": {"description": "`true` asks for an event stream."},
        },
        "description": "Every other member is for the engine to judge.",
    }
    responses = {
        str(status): _response(status, "OpenAiError")
        for status in sorted(FORWARDED_STATUSES - {200})
    }
    return {
        "summary": f"Forwarded byte for byte to {path} of the model's engine",
        "requestBody": {"required": True, "content": {written_as: {"schema": body}}},
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
    responses = {str(status): _response(status, bodies[status]) for status in sorted(bodies)}
    return get_and_head(summary, responses, parameters)


def _text(summary: str, statuses: Mapping[int, str]) -> Json:
    """GET and HEAD of a route that answers text."""
    content = {"text/plain": {"schema": {"type": "string"}}}
    responses = {
        str(status): {"description": words, "content": content}
        for status, words in statuses.items()
    }
    return get_and_head(summary, responses, None)


def _response(status: int, schema: str | None) -> Json:
    content = schema_of(schema) if schema else {"schema": {"type": "object"}}
    response: Json = {
        "description": _STATUS_WORDS[status],
        "content": {"application/json": content},
    }
    if status != 200:
        response["headers"] = {
            "X-Pumas-Outcome": {
                "required": True,
                "schema": {"enum": [outcome.value for outcome in Outcome]},
            }
        }
    return response
