"""The list routes: projections of the one current catalogue. Nothing here asks anybody."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request, Response

from pumas_server.contract.descriptors import render
from pumas_server.contract.errors import ContractError, Outcome, error_body, invalid
from pumas_server.contract.strict_json import quoted
from pumas_server.router.contract_api import error_headers
from pumas_server.router.openai_refusals import REFUSED_HEADERS, openai_error
from pumas_server.router.workers import Workers

_READ = ["GET", "HEAD"]
_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def discovery_routes(workers: Workers, openapi: dict[str, Any]) -> APIRouter:
    """`/v1/served-models`, `/v1/capabilities` and `/v1/models`."""
    routes = APIRouter()

    @routes.api_route("/v1/served-models", methods=_READ)
    async def served_models(request: Request) -> Response:
        """Every (model, profile) pair, loaded or not."""
        try:
            _fields(request.scope["query_string"], ())
        except ContractError as error:
            return _refused(error)
        return _json(render(workers.catalog.served_models))

    @routes.api_route("/v1/capabilities", methods=_READ)
    async def capabilities(request: Request) -> Response:
        """What one serving identity offers now."""
        try:
            model, profile = _query(request.scope["query_string"])
            row = workers.catalog.select(model, profile)
        except ContractError as error:
            return _refused(error)
        return _json(render(row.capabilities(model)))

    @routes.api_route("/v1/models", methods=_READ)
    async def models() -> Response:
        """The loaded models, in the OpenAI shape."""
        listed = list(workers.catalog.openai_models.values())
        return _json(json.dumps({"object": "list", "data": listed}).encode())

    @routes.api_route("/v1/models/{model_id:path}", methods=_READ)
    async def model(model_id: str) -> Response:
        """One loaded model, in the OpenAI shape."""
        entry = workers.catalog.openai_models.get(model_id)
        if entry is None:
            message = f"no model {quoted(model_id)} is loaded here"
            return _json(openai_error(404, "model_not_found", message), 404, REFUSED_HEADERS)
        return _json(json.dumps(entry).encode())

    document = json.dumps(openapi).encode()

    @routes.api_route("/openapi.json", methods=_READ)
    async def openapi_document() -> Response:
        """What all routes take and give."""
        return _json(document)

    return routes


def _json(body: bytes, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(body, status, headers, media_type="application/json")


def _refused(error: ContractError) -> Response:
    outcome = Outcome.NOT_ADMITTED
    return Response(
        error_body(error, outcome, None),
        error.code.status,
        {k.decode(): v.decode() for k, v in error_headers(error, outcome)},
    )


def _query(raw: bytes) -> tuple[str, str | None]:
    """The closed query of `/v1/capabilities`. Raises `ContractError` (400)."""
    values = _fields(raw, ("model", "profile"))
    if not values.get("model"):
        raise invalid("missing query field `model`")
    profile = values.get("profile")
    if profile is not None and not profile.strip():
        raise invalid("query field `profile` is empty")
    return values["model"], profile.strip() if profile is not None else None


def _fields(raw: bytes, known: tuple[str, ...]) -> dict[str, str]:
    """The fields of a query that has no others. Raises `ContractError` (400)."""
    if _BROKEN_ESCAPE.search(raw):
        raise invalid("the query holds a `%` that escapes nothing")
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, strict_parsing=bool(raw), errors="strict"
        )
    except ValueError:
        raise invalid("the query is not well formed") from None
    names = [name for name, _ in pairs]
    for name in names:
        if name not in known:
            raise invalid(f"unknown query field {quoted(name)}")
        if names.count(name) > 1:
            raise invalid(f"query field {quoted(name)} is repeated")
    return dict(pairs)
