"""The catalogue's part of the OpenAPI document. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pumas_server.contract.errors import Outcome
from pumas_server.router.lmsp.action import Action
from pumas_server.router.lmsp.answer_bodies import CatalogueModel, CatalogueModels, Problem
from pumas_server.router.lmsp.paths import MODELS, PROBLEM_PAGE
from pumas_server.router.lmsp.problems import MEDIA_TYPE
from pumas_server.router.lmsp.query import CAPABILITIES
from pumas_server.router.openapi_parts import Json, get_and_head, parameter, schema_of

#: What answers are, beside what they refer to.
TYPES: tuple[type, ...] = (CatalogueModel, CatalogueModels, Problem)

_TEXT: Json = {"schema": {"type": "string"}}
_SECONDS: Json = {"required": True, "schema": {"type": "string", "pattern": "^[0-9]+$"}}
_ALWAYS: Json = {"required": True, **_TEXT}
_READ_HEADERS: Json = {"ETag": _ALWAYS, "Cache-Control": _ALWAYS, "Vary": _ALWAYS}
_REPLAYED: Json = {
    "Idempotent-Replayed": {
        "description": "The answer that this Idempotency-Key was given first.",
        "schema": {"enum": ["true"]},
    }
}

_PROBLEMS = {
    400: "The query, a header or the body is not what this route takes",
    404: "No such model; for an action also: this service does not manage models",
    409: "Another request with this Idempotency-Key is being answered",
    422: "This Idempotency-Key stands for another request",
    503: "It cannot be done now",
}
_PASSING = frozenset({409, 503})
_UNSURE = frozenset({503})

_MODEL_ID = parameter("model_id", "path", {"minLength": 1}, required=True)
_IF_NONE_MATCH = parameter("If-None-Match", "header", {})
_KEY = parameter("Idempotency-Key", "header", {"pattern": "^[!-~]+$", "maxLength": 512}) | {
    "description": (
        "1 to 255 visible ASCII characters, in double quotes or bare. For a day the first answer"
        " is given again, also when the model's state is another by then; to try a failed load"
        " again, send a new key."
    )
}


def catalogue_paths() -> Json:
    """The paths below `/lmsp/`."""
    return {
        MODELS: get_and_head(
            "The model catalogue",
            _read(CatalogueModels) | _problems((400, 503)),
            [_capability(), _ready_only(), _IF_NONE_MATCH],
        ),
        f"{MODELS}/{{model_id}}": get_and_head(
            "One model of the catalogue",
            _read(CatalogueModel) | _problems((404, 503)),
            [_MODEL_ID, _IF_NONE_MATCH],
        ),
        **{f"{MODELS}/{{model_id}}/{action}": {"post": _act(action)} for action in Action},
        PROBLEM_PAGE: get_and_head(
            "What a type of problem means",
            {"200": {"description": "One line", "content": {"text/plain": _TEXT}}}
            | _problems((404,)),
            [parameter("code", "path", {"minLength": 1}, required=True)],
        ),
    }


def _capability() -> Json:
    known = ", ".join(CAPABILITIES)
    return {
        "name": "capability",
        "in": "query",
        "description": f"Only models that have all of these ({known}). No model has another one.",
        "required": False,
        "schema": {"type": "array", "items": {"type": "string", "minLength": 1}},
    }


def _ready_only() -> Json:
    return {
        "name": "ready_only",
        "in": "query",
        "description": "Only models whose status is `ready`.",
        "required": False,
        "schema": {"type": "boolean", "default": False},
    }


def _act(action: Action) -> Json:
    body = _json(CatalogueModel)
    responses: Json = {
        "200": {
            "description": {
                Action.LOAD: "It was ready; nothing was done",
                Action.UNLOAD: "It is being unloaded, or was not loaded",
            }[action],
            "headers": _REPLAYED,
            "content": body,
        }
    }
    if action is Action.LOAD:
        place = {"Location": _ALWAYS, "Content-Location": _ALWAYS, "Retry-After": _SECONDS}
        responses["202"] = {
            "description": "The load has begun, by this request or before",
            "headers": place | _REPLAYED,
            "content": body,
        }
    empty = {"type": "object", "additionalProperties": False}
    return {
        "summary": f"Have a model {action}ed",
        "parameters": [_MODEL_ID, _KEY],
        "requestBody": {"required": False, "content": {"application/json": {"schema": empty}}},
        "responses": responses | _problems((400, 404, 409, 422, 503)),
    }


def _read(body: type) -> Json:
    unchanged = {"description": "The caller has it", "headers": _READ_HEADERS}
    found = {"description": "Success", "headers": _READ_HEADERS, "content": _json(body)}
    return {"200": found, "304": unchanged}


def _json(body: type) -> Json:
    return {"application/json": schema_of(body.__name__)}


def _problems(statuses: Iterable[int]) -> Json:
    return {str(status): _problem(status) for status in statuses}


def _outcome(status: int) -> Json:
    # An action that could not be carried out to its end is 503 as well.
    known = [*Outcome] if status in _UNSURE else [Outcome.NOT_ADMITTED]
    return {"required": True, "schema": {"enum": [outcome.value for outcome in known]}}


def _problem(status: int) -> Json:
    headers: Json = {"X-Request-Id": _ALWAYS, "X-Pumas-Outcome": _outcome(status)}
    if status in _PASSING:
        headers["Retry-After"] = _SECONDS
    return {
        "description": _PROBLEMS[status],
        "headers": headers,
        "content": {MEDIA_TYPE: schema_of(Problem.__name__)},
    }
