"""The routes of the catalogue.

An id is what follows `/lmsp/v1/models/`, decoded once, with or without slashes; no other name of a
model is looked up. It is taken from the path itself, since a pattern of the framework also matches
before a line break. The two actions are POST and reading is GET, so a model may be named `load`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from pumas_server.contract.strict_json import Unreadable, quoted, read_document
from pumas_server.router.access import principal_of
from pumas_server.router.lmsp.action import Action
from pumas_server.router.lmsp.actions import Actions, Answer, model_not_found
from pumas_server.router.lmsp.catalogue import Catalogue, Entry, Listing, Representation
from pumas_server.router.lmsp.idempotency_key import HEADER as KEY_HEADER
from pumas_server.router.lmsp.idempotency_key import read_key
from pumas_server.router.lmsp.load_control import LoadControl
from pumas_server.router.lmsp.memory_records import MemoryRecords
from pumas_server.router.lmsp.page_fence import PageFence
from pumas_server.router.lmsp.paths import MODELS, PROBLEM_PAGE, READ_METHODS, model_path
from pumas_server.router.lmsp.problem_responses import problem_response
from pumas_server.router.lmsp.problems import RETRY_SECONDS, ProblemCode, ProblemError
from pumas_server.router.lmsp.query import read_query
from pumas_server.router.lmsp.request_records import RequestRecords
from pumas_server.router.lmsp.validators import none_match
from pumas_server.router.workers import Workers

#: A body says nothing: it is empty or an empty object. Some blanks are no harm.
MAX_BODY_BYTES = 1024
#: Less than a router that stops gives its calls: nobody who dawdles holds it up.
BODY_SECONDS = 5.0

_READ = [*READ_METHODS]
_READ_HEADERS = {"Cache-Control": "private, no-cache", "Vary": "Authorization"}


def lmsp_routes(
    workers: Workers,
    catalogue: Catalogue,
    control: LoadControl | None,
    records: RequestRecords | None,
    pages: str,
    fence: PageFence,
) -> APIRouter:
    """All routes below `/lmsp/`. Without `control` there is no model management.

    Their handlers raise `ProblemError`, which the application answers.
    """
    routes = APIRouter()

    def listing() -> Listing:
        if not workers.listed:
            # An empty list would be untrue, and a client would take its models for deleted.
            raise ProblemError(ProblemCode.UNAVAILABLE, "the models are not known yet")
        return catalogue.listing(workers.records)

    def find(model_id: str) -> Entry | None:
        return listing().find(model_id)

    actions = (
        Actions(control, records or MemoryRecords(), find, pages) if control is not None else None
    )

    def acting(action: Action) -> Callable[[Request], Awaitable[Response]]:
        async def act(request: Request) -> Response:
            model_id = _model_id(request, f"/{action}")
            if actions is None:
                raise ProblemError(ProblemCode.NOT_FOUND, "this service does not manage models")
            fence.check(request.scope["headers"])
            key = read_key(_lines(request, KEY_HEADER))
            await _read_empty_body(request)
            principal = principal_of(request.scope).name
            answer = await actions.carry_out(action, model_id, principal, key)
            return _acted(answer, model_id)

        return act

    # Before the route that reads: its pattern matches these paths too.
    for action in Action:
        routes.add_api_route(
            f"{MODELS}/{{model_id:path}}/{action}", acting(action), methods=["POST"]
        )

    @routes.api_route(MODELS, methods=_READ)
    async def models(request: Request) -> Response:
        """All models, or those that the query selects."""
        if request.scope["path"] != MODELS:
            raise ProblemError(ProblemCode.NOT_FOUND, "there is no such route")
        selection = read_query(request.scope["query_string"])
        return _representation(request, listing().select(selection))

    @routes.api_route(f"{MODELS}/{{model_id:path}}", methods=_READ)
    async def model(request: Request) -> Response:
        """One model."""
        model_id = _model_id(request)
        entry = find(model_id)
        if entry is None:
            stem, _, last = model_id.rpartition("/")
            if actions is not None and last in set(Action) and find(stem) is not None:
                # No model has this id, and one has what stands before the action.
                raise HTTPException(405, headers={"Allow": "POST"})
            raise model_not_found(model_id)
        return _representation(request, entry.representation)

    @routes.api_route(PROBLEM_PAGE, methods=_READ)
    async def problem(code: str) -> Response:
        """What a type of problem means."""
        if code not in set(ProblemCode):
            raise ProblemError(ProblemCode.NOT_FOUND, f"no problem has the code {quoted(code)}")
        return Response(ProblemCode(code).page, media_type="text/plain")

    return routes


def _model_id(request: Request, suffix: str = "") -> str:
    """The id in the path. Raises `ProblemError` when the path does not end as it seemed to."""
    path: str = request.scope["path"]
    if not path.endswith(suffix):
        raise ProblemError(ProblemCode.NOT_FOUND, "there is no such route")
    return path.removeprefix(f"{MODELS}/").removesuffix(suffix)


def _lines(request: Request, name: str) -> list[bytes]:
    """The values of all lines of a header field."""
    return [value for key, value in request.scope["headers"] if key == name.encode()]


async def _read_empty_body(request: Request) -> None:
    """Raises `ProblemError` unless the body is empty or `{}`, and there in time."""
    announced = request.headers.get("content-length", "0")
    if announced.isdigit() and int(announced) > MAX_BODY_BYTES:
        raise _too_long()
    raw = b""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                raw += piece
                if len(raw) > MAX_BODY_BYTES:
                    raise _too_long()
    except ClientDisconnect:
        raise _invalid("the body has no end") from None
    except TimeoutError:
        raise _invalid(f"the body did not come within {BODY_SECONDS:g} s") from None
    if not raw:
        return
    try:
        document = read_document(raw)
    except Unreadable as error:
        raise _invalid(str(error)) from None
    if document.root:
        raise _invalid(f"unknown field {quoted(next(iter(document.root)))}")


def _too_long() -> ProblemError:
    return _invalid(f"the body has more than {MAX_BODY_BYTES} bytes, and may be `{{}}`")


def _invalid(detail: str) -> ProblemError:
    return ProblemError(ProblemCode.INVALID_REQUEST, detail)


def _representation(request: Request, found: Representation) -> Response:
    headers = _READ_HEADERS | {"ETag": found.etag}
    if not none_match(_lines(request, "if-none-match"), found.etag):
        return Response(status_code=304, headers=headers)
    return Response(found.body, headers=headers, media_type="application/json")


def _acted(answer: Answer, model_id: str) -> Response:
    headers = {"Cache-Control": "no-store"}
    if answer.replayed:
        headers["Idempotent-Replayed"] = "true"
    if answer.status >= 400:
        return problem_response(answer.status, answer.body, headers)
    if answer.status == 202:
        place = model_path(model_id)
        headers |= {
            "Location": place,
            "Content-Location": place,
            "Retry-After": str(RETRY_SECONDS),
        }
    return Response(answer.body, answer.status, headers, media_type="application/json")
