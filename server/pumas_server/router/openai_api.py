"""The OpenAI routes: the caller's bytes go to the engine, the engine's bytes come back.

Same permits, marker, connection rule and bounds as the contract; no replay. What the router itself
refuses has the OpenAI error shape; what the engine answers passes byte for byte, errors too. Every
answer that is not a success says whether there was an effect (`X-Pumas-Outcome`) and tells client
libraries not to replay (`x-should-retry`).
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass
from http import HTTPStatus

from pumas_server.contract.bounds import MAX_RESPONSE_BYTES
from pumas_server.contract.errors import Code, ContractError, Outcome
from pumas_server.provider.address import Body
from pumas_server.router.access import principal_of
from pumas_server.router.activator import Activator, LoadFailed
from pumas_server.router.admission import BufferBudget, BufferLease
from pumas_server.router.asgi import (
    JSON_HEADER,
    CallerWatch,
    Headers,
    Receive,
    Scope,
    Send,
    end_broken,
    fields,
    read_body,
    send_end,
    send_piece,
    send_start,
    send_whole,
)
from pumas_server.router.body_reading import Forwarded
from pumas_server.router.catalog_row import Row
from pumas_server.router.forwarded_routes import ROUTES
from pumas_server.router.growing_body import assemble
from pumas_server.router.long_bodies import LongBodies
from pumas_server.router.metrics import Metrics
from pumas_server.router.openai_refusals import (
    RouteError,
    as_route_error,
    load_failed,
    offers,
    openai_error,
    require,
)
from pumas_server.router.operation_log import OperationRecord
from pumas_server.router.reach import Reach
from pumas_server.router.sessions import EndReason, Session, SessionEnded, Sessions
from pumas_server.router.upstream import read_chunk
from pumas_server.router.upstream_answer import UpstreamAnswer
from pumas_server.router.workers import Workers

#: A finite answer up to here is held back until it is whole, so that a fault is still told in an
#: error body. A longer one is forwarded as it comes, and a fault breaks the connection.
_HOLD_BYTES = 1_048_576

_FORWARDED_REQUEST_HEADERS = tuple(
    (name.encode(), name) for name in ("content-type", "accept", "traceparent")
)
_FORWARDED_RESPONSE_HEADERS = frozenset(
    {b"content-type", b"content-encoding", b"retry-after", b"cache-control"}
)

#: What no server will put into a header; a provider's value that holds it is left out.
_UNSENDABLE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")


class _Broken(Exception):
    """The answer failed after its header went out: the connection is to end broken."""


class OpenAiApi:
    """The ASGI app of one forwarded route."""

    def __init__(
        self,
        path: str,
        workers: Workers,
        reach: Reach,
        sessions: Sessions,
        budget: BufferBudget,
        metrics: Metrics,
        activator: Activator,
        bodies: LongBodies,
    ) -> None:
        self._activator = activator
        self._bodies = bodies
        self._path = path
        self._route = ROUTES[path]
        self._workers = workers
        self._reach = reach
        self._sessions = sessions
        self._budget = budget
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        principal = principal_of(scope)
        with (
            self._sessions.open() as session,
            self._budget.lease() as lease,
            OperationRecord(
                self._path, session, principal.name, finished=self._metrics.count
            ) as record,
        ):
            record.capability = self._route.capability
            try:
                body = await read_body(scope, receive, session, lease)
                record.request_bytes = len(body)
                with CallerWatch(scope, session):
                    await self._forward(scope, body, session, lease, record, send)
            except RouteError as error:
                record.code = error.code
                await _refuse(error, session, record, send)
            except ContractError as error:
                record.failed(error)
                await _refuse(as_route_error(error), session, record, send)
            except SessionEnded as ended:
                record.failed(ended.as_error())
                if ended.reason is not EndReason.CALLER_GONE:
                    await _refuse(as_route_error(ended.as_error()), session, record, send)
            except _Broken:
                end_broken(scope)

    async def _forward(
        self,
        scope: Scope,
        body: Body,
        session: Session,
        lease: BufferLease,
        record: OperationRecord,
        send: Send,
    ) -> None:
        told = fields(scope)
        content_type = told.get(b"content-type", b"").decode("latin-1")
        asked = Forwarded(self._path, content_type)
        address = await self._bodies.read(session, asked, body)
        record.model = address.model
        row = self._workers.catalog.select_openai(address.model)
        record.profile = row.profile
        row = await self._awake(session, row)
        require(row, self._route.capability, self._path, self._route.requires)
        sent = assemble(*address.rewrite(body, row.upstream_model)) if row.external else body
        headers = _request_headers(told)
        with await self._reach.open(session, row, self._path, sent, headers) as response:
            record.status = response.status
            success = response.success
            if not success and not 400 <= response.status < 600:
                # A redirect would be followed, which is a replay; the rest is no answer at all.
                raise ContractError(
                    Code.PROVIDER_FAILURE, f"the provider answered {response.status}"
                )
            if not success:
                record.code = Code.PROVIDER_FAILURE
            streamed = response.content_type == "text/event-stream"
            if address.stream and success and not streamed:
                raise ContractError(
                    Code.PROVIDER_FAILURE, "the provider answered a stream with something else"
                )
            answer = _Answer(session, response, record, lease, send, _response_headers(response))
            if streamed:
                await answer.forward(deque())
            else:
                await answer.hold_then_forward()

    async def _awake(self, session: Session, row: Row) -> Row:
        """The row, waked if it sleeps and will serve this route."""
        route = self._route
        if not row.asleep or not offers(row.awake_descriptors, route.capability, route.requires):
            return row
        try:
            return await self._activator.wake(session, row)
        except LoadFailed as failure:
            raise load_failed(row.alias, failure.fault) from None


@dataclass(frozen=True, slots=True)
class _Answer:
    """A provider's answer on its way to the caller, counted."""

    session: Session
    response: UpstreamAnswer
    record: OperationRecord
    lease: BufferLease
    send: Send
    headers: Headers

    async def hold_then_forward(self) -> None:
        """Send a short answer whole; a long one, or one the budget has no room for, as it comes."""
        held: deque[bytes] = deque()
        size, before = 0, self.lease.held
        while chunk := await read_chunk(self.session, self.response):
            held.append(chunk)
            size += len(chunk)
            if size > _HOLD_BYTES or not self.lease.grow(len(chunk)):
                # From here on it is held no longer than its caller reads.
                self.lease.shrink(self.lease.held - before)
                await self.forward(held)
                return
        self.record.response_bytes = size
        await send_whole(self.send, self.response.status, b"".join(held), self.headers)
        self.record.succeeded()

    async def forward(self, held: deque[bytes]) -> None:
        """Send what is held, piece by piece, and what comes as it comes.

        Raises `_Broken` when it does not end cleanly.
        """
        length = self.response.header(b"content-length")
        if self.response.status == HTTPStatus.NO_CONTENT:
            # Whatever it says, no body comes.
            length = None
        framing = [(b"content-length", length)] if length is not None else []
        await send_start(self.send, self.response.status, [*framing, *self.headers])
        try:
            while chunk := held.popleft() if held else await self._read():
                if self.record.response_bytes + len(chunk) > MAX_RESPONSE_BYTES:
                    raise ContractError(
                        Code.RESPONSE_LIMIT, f"over the limit of {MAX_RESPONSE_BYTES} bytes"
                    )
                self.record.response_bytes += len(chunk)
                await send_piece(self.send, chunk)
        except ContractError as error:
            self.record.failed(error)
            raise _Broken from None
        except SessionEnded as ended:
            self.record.failed(ended.as_error())
            raise _Broken from None
        await send_end(self.send)
        self.record.succeeded()

    async def _read(self) -> bytes:
        return await read_chunk(self.session, self.response)


async def _refuse(error: RouteError, session: Session, record: OperationRecord, send: Send) -> None:
    body = openai_error(error.status, error.code, error.message)
    record.status, record.response_bytes = error.status, len(body)
    headers = [JSON_HEADER, *_honesty(session.outcome)]
    if error.status == 503:
        headers.append((b"retry-after", b"1"))
    await send_whole(send, error.status, body, headers)


def _honesty(outcome: Outcome) -> Headers:
    return ((b"x-pumas-outcome", outcome.encode()), (b"x-should-retry", b"false"))


def _request_headers(told: dict[bytes, bytes]) -> dict[str, str]:
    headers = {}
    for name, written in _FORWARDED_REQUEST_HEADERS:
        value = told.get(name)
        # None of the three has a meaning outside ASCII.
        if value is not None and value.isascii():
            headers[written] = value.decode()
    return headers


def _response_headers(response: UpstreamAnswer) -> Headers:
    passed = [
        (name, value)
        for name, value in response.headers
        if name in _FORWARDED_RESPONSE_HEADERS and not _UNSENDABLE.search(value)
    ]
    if not response.success:
        passed += _honesty(Outcome.UNKNOWN)
    return passed
