"""The router as one ASGI application, and the events of its life.

The hot paths are plain ASGI, reached by one dictionary lookup; everything else is FastAPI. The
composition is in `Router`: no global state, so that tests run several routers in one process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.metadata import version

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.routing import Route

from pumas_crds.served_model import ServedModel
from pumas_crds.vocabulary import DISTRIBUTION
from pumas_server.router.activator import Activator
from pumas_server.router.admission import Admission, BufferBudget
from pumas_server.router.asgi import CALLER, JSON_HEADER, Message, Receive, Scope, Send, send_whole
from pumas_server.router.background import start
from pumas_server.router.connections import Connections
from pumas_server.router.contract_api import PATH as OPERATIONS_PATH
from pumas_server.router.contract_api import ContractApi
from pumas_server.router.demand import Demand
from pumas_server.router.discovery_api import discovery_routes
from pumas_server.router.exchanges import Exchanges
from pumas_server.router.forwarded_routes import ROUTES
from pumas_server.router.lmsp.api import lmsp_routes
from pumas_server.router.lmsp.catalogue import Catalogue
from pumas_server.router.lmsp.load_control import LoadControl
from pumas_server.router.lmsp.page_fence import PageFence
from pumas_server.router.lmsp.paths import ROOT as LMSP_ROOT
from pumas_server.router.lmsp.problem_responses import ProblemResponses
from pumas_server.router.lmsp.problems import ProblemError
from pumas_server.router.lmsp.rendering import render_first
from pumas_server.router.lmsp.request_records import RequestRecords
from pumas_server.router.loading import Loading
from pumas_server.router.long_bodies import LongBodies
from pumas_server.router.media_checks import MediaChecks
from pumas_server.router.metrics import CONTENT_TYPE as METRICS_TYPE
from pumas_server.router.metrics import Levels, Metrics
from pumas_server.router.openai_api import OpenAiApi
from pumas_server.router.openai_refusals import REFUSED_HEADERS, openai_error
from pumas_server.router.openapi import build_openapi
from pumas_server.router.preflight import Preflight
from pumas_server.router.reach import Reach
from pumas_server.router.refusals import Refusals
from pumas_server.router.sessions import Sessions
from pumas_server.router.settings import RouterSettings
from pumas_server.router.source import ModelSource
from pumas_server.router.steering import NO_STEERING, Steering
from pumas_server.router.upstream import Upstream
from pumas_server.router.workers import Workers

_log = logging.getLogger(__name__)

_FAILED = openai_error(500, "internal_error", "the router failed; its log says how")


class Router:
    """One router process: an ASGI app with `stop`, `shutdown` and a readiness of its own.

    Without `records` it keeps those of keyed requests in its memory.
    """

    def __init__(
        self,
        source: ModelSource,
        settings: RouterSettings,
        steering: Steering = NO_STEERING,
        *,
        load_control: LoadControl | None = None,
        records: RequestRecords | None = None,
    ) -> None:
        self.settings = settings
        self.sessions = Sessions()
        self.refusals = Refusals()
        self.connections = Connections(
            most=settings.max_connections,
            header_seconds=settings.header_seconds,
            body_seconds=settings.body_seconds,
            body_rate=settings.body_rate,
            linger_seconds=settings.linger_seconds,
            problem_pages=settings.problem_pages,
            refusals=self.refusals,
        )
        self.admission = Admission(settings.max_in_flight, settings.model_share, self.refusals)
        self.budget = BufferBudget(settings.buffer_bytes, self.refusals)
        self.workers = Workers(source, settings)
        self.upstream = Upstream(settings.connect_seconds)
        self.accepting = True
        self.fence = PageFence()
        self.media = MediaChecks(settings.image_permits, self.refusals)
        self.bodies = LongBodies(self.refusals)
        levels = Levels(
            *(self.admission, self.budget, self.sessions, self.workers, self.media),
            *(self.connections, self.refusals),
        )
        self.metrics = Metrics(levels)
        self.steering = steering
        self.demand = Demand(self.sessions, self._find, steering)
        exchanges = Exchanges(self.admission, self.upstream, self.workers, self.demand.touch)
        if settings.model_management and load_control is None:
            load_control = Loading(self.workers, steering)
        self.activator = Activator(
            self.workers, steering, self.demand, settings.max_held, self.refusals
        )
        reach = Reach(exchanges, self.activator, self.workers)
        shared = (
            *(self.workers, reach, self.sessions, self.budget, self.metrics),
            *(self.activator, self.bodies),
        )
        self._hot = {
            OPERATIONS_PATH: ContractApi(*shared, self.media, Preflight(self.upstream))
        } | {path: OpenAiApi(path, *shared) for path in ROUTES}
        self._catalogue = Catalogue(settings.problem_pages)
        self._problems = ProblemResponses(settings.problem_pages, managed=load_control is not None)
        self._cold = self._build_cold(load_control, records)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry."""
        if scope["type"] != "http":
            await self._cold(scope, receive, send)
            return
        hot = self._hot.get(scope["path"]) if scope["method"] == "POST" else None
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            if not started:
                started = True
                if message.get("status") == HTTPStatus.BAD_REQUEST and CALLER in scope:
                    # Immediately told, and a flood of them comes at their sender's pace.
                    scope[CALLER].rest()
            await send(message)

        try:
            await (hot or self._cold)(scope, receive, watched)
        except Exception:
            # A fault of ours: the trace goes to our log, the caller gets a sentence.
            _log.exception("a request failed inside the router")
            if not started:
                await _send_internal_error(send)

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Follow the source and hold the engines' connections while the block lasts."""
        try:
            async with (
                self.workers.run(removed=self.sessions.stop),
                self.demand.run(),
                self.activator.run(),
            ):
                rendering = start(render_first(self.workers, self._catalogue), "render-catalogue")
                try:
                    yield
                finally:
                    rendering.cancel()
                    await asyncio.gather(rendering, return_exceptions=True)
        finally:
            self.media.close()
            self.bodies.close()
            self.upstream.close()

    def _find(self, model_uid: str) -> ServedModel | None:
        row = self.workers.catalog.by_uid(model_uid)
        return None if row is None else row.model

    def drain(self) -> None:
        """Turn readiness off: no new calls should be sent here. Those that come are served."""
        self.accepting = False

    def shutdown(self) -> None:
        """End every session: waiting ends at once, streams at their next poll."""
        self.accepting = False
        self.sessions.shutdown()

    def _build_cold(
        self, load_control: LoadControl | None, records: RequestRecords | None
    ) -> FastAPI:
        app = FastAPI(title="Pumas Serving", openapi_url=None, redirect_slashes=False)
        app.include_router(
            discovery_routes(self.workers, build_openapi(version(DISTRIBUTION), ROUTES))
        )
        app.include_router(
            lmsp_routes(
                *(self.workers, self._catalogue, load_control, records),
                *(self.settings.problem_pages, self.fence),
            )
        )
        for path, hot in self._hot.items():
            # Known to the framework only so that other methods are answered 405 with Allow.
            app.router.routes.append(Route(path, hot, methods=["POST"]))

        @app.api_route("/healthz", methods=["GET", "HEAD"])
        async def healthz() -> Response:
            """The process answers."""
            return Response("ok\n", media_type="text/plain")

        @app.api_route("/readyz", methods=["GET", "HEAD"])
        async def readyz() -> Response:
            """Calls may be sent here. Waits for the first listing of models, and for no model."""
            if not self.accepting:
                return Response("stopping\n", 503, media_type="text/plain")
            if not self.workers.listed:
                return Response("not listed yet\n", 503, media_type="text/plain")
            return Response("ok\n", media_type="text/plain")

        @app.api_route("/metrics", methods=["GET", "HEAD"])
        async def metrics() -> Response:
            """Counters and levels for Prometheus."""
            return Response(self.metrics.render(), media_type=METRICS_TYPE)

        @app.exception_handler(HTTPException)
        async def refused(request: Request, error: HTTPException) -> Response:
            if _of_lmsp(request):
                return self._problems.of_framework(request, error)
            return _refused(request, error)

        @app.exception_handler(ProblemError)
        async def problem(request: Request, error: ProblemError) -> Response:
            return self._problems.of(error)

        @app.exception_handler(Exception)
        async def failed(request: Request, error: Exception) -> Response:
            # Raised again by the framework when this is sent, and logged by `__call__`.
            return self._problems.of_fault(request) if _of_lmsp(request) else _failed()

        return app


def _of_lmsp(request: Request) -> bool:
    path: str = request.scope["path"]
    return path.startswith(LMSP_ROOT)


def _refused(request: Request, error: HTTPException) -> Response:
    """404 and 405 in the OpenAI shape."""
    match error.status_code:
        case 404:
            code, message = "not_found", "there is no such route"
        case 405:
            allowed = (error.headers or {}).get("Allow", "")
            code, message = "method_not_allowed", f"this route takes {allowed}"
        case _:
            code, message = "invalid_request", str(error.detail)
    body = openai_error(error.status_code, code, message)
    headers = dict(error.headers or {}) | REFUSED_HEADERS
    return Response(body, error.status_code, headers, media_type="application/json")


def _failed() -> Response:
    """500 in the OpenAI shape, of a route that has no effect."""
    return Response(_FAILED, 500, REFUSED_HEADERS, media_type="application/json")


async def _send_internal_error(send: Send) -> None:
    # How far the call had come is not known here: nobody is told that it had no effect.
    honesty = [(b"x-pumas-outcome", b"unknown"), (b"x-should-retry", b"false")]
    await send_whole(send, 500, _FAILED, [JSON_HEADER, *honesty])
