"""`POST /v1/model-operations`: one typed operation, finite or streamed. Plain ASGI.

Order: principal, body (bounded), grammar, media, selection, resolution, permit, connection, marker,
provider, projection, answer. Whatever fails is rendered once, at the end, with the outcome that
the session's marker says.
"""

from __future__ import annotations

from typing import assert_never

from pumas_crds.vocabulary import PERMANENT_REASONS
from pumas_server.capabilities import resolve
from pumas_server.contract.bounds import FAILED_RECORD_RESERVE, MAX_RESPONSE_BYTES
from pumas_server.contract.descriptors import Descriptor
from pumas_server.contract.errors import Code, ContractError, Outcome, error_body
from pumas_server.contract.request import Operation
from pumas_server.contract.results import (
    TextResult,
    completed_record,
    delta_record,
    failed_record,
    result_body,
    started_record,
)
from pumas_server.provider.address import Body
from pumas_server.provider.dialect import JsonCall, TextCall, build_call
from pumas_server.router.access import principal_of
from pumas_server.router.activator import Activator, LoadFailed
from pumas_server.router.admission import BufferBudget, BufferLease
from pumas_server.router.asgi import (
    JSON_HEADER,
    PIECE_BYTES,
    CallerWatch,
    Headers,
    Receive,
    Scope,
    Send,
    read_body,
    send_end,
    send_piece,
    send_start,
    send_whole,
)
from pumas_server.router.at_length import at_length
from pumas_server.router.body_reading import Projected, Typed
from pumas_server.router.catalog_row import Row
from pumas_server.router.long_bodies import LongBodies
from pumas_server.router.media_checks import MediaChecks
from pumas_server.router.metrics import Metrics
from pumas_server.router.operation_log import OperationRecord
from pumas_server.router.preflight import Preflight
from pumas_server.router.provider_answers import EVENT_STREAM, JSON, read_whole, require
from pumas_server.router.reach import Reach
from pumas_server.router.sessions import EndReason, Session, SessionEnded, Sessions
from pumas_server.router.text_streams import TextStream
from pumas_server.router.workers import Workers

PATH = "/v1/model-operations"

_MAX_STREAM_BYTES = MAX_RESPONSE_BYTES - FAILED_RECORD_RESERVE

_STREAM_HEADERS: Headers = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


class ContractApi:
    """The ASGI app of the operations route."""

    def __init__(
        self,
        workers: Workers,
        reach: Reach,
        sessions: Sessions,
        budget: BufferBudget,
        metrics: Metrics,
        activator: Activator,
        bodies: LongBodies,
        media: MediaChecks,
        preflight: Preflight,
    ) -> None:
        self._preflight = preflight
        self._activator = activator
        self._bodies = bodies
        self._media = media
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
            OperationRecord(PATH, session, principal.name, finished=self._metrics.count) as record,
        ):
            try:
                body = await read_body(scope, receive, session, lease)
                record.request_bytes = len(body)
                with CallerWatch(scope, session):
                    await self._operate(body, session, lease, record, send)
            except ContractError as error:
                await self._refuse(error, session, record, send)
            except SessionEnded as ended:
                record.failed(ended.as_error())
                if ended.reason is not EndReason.CALLER_GONE:
                    await self._refuse(ended.as_error(), session, record, send)

    async def _operate(
        self,
        body: Body,
        session: Session,
        lease: BufferLease,
        record: OperationRecord,
        send: Send,
    ) -> None:
        operation = await self._bodies.read(session, Typed(), body)
        record.request_id, record.model = operation.request_id, operation.model
        clips = await self._media.check(session, operation)
        row = self._workers.catalog.select(operation.model, operation.profile)
        record.profile = row.profile
        row, descriptor = await self._resolve(operation, session, row)
        record.capability = descriptor.capability
        call = await at_length(
            session,
            len(body),
            lambda: build_call(operation, descriptor.capability, row.upstream_model, clips),
        )
        await self._preflight.check(session, row, operation, descriptor, call)
        kind = EVENT_STREAM if isinstance(call, TextCall) else JSON
        headers = {"accept": kind}
        with await self._reach.open(session, row, call.path, call.body, headers) as provider:
            await require(session, provider, kind)
            match call:
                case TextCall():
                    stream = TextStream(session, provider, call.form)
                    if operation.stream:
                        started = started_record(
                            operation.request_id,
                            descriptor.capability,
                            operation.model,
                            row.profile,
                        )
                        await _relay(operation.request_id, started, stream, record, send)
                        return
                    result = await _aggregate(stream, lease)
                    answer = result_body(operation.request_id, result)
                case JsonCall():
                    whole = await read_whole(session, provider, lease)
                    asked = Projected(operation.request_id, call.project)
                    answer = await self._bodies.read(
                        session, asked, whole, at_length=call.at_length
                    )
                case _ as never:
                    assert_never(never)
        record.response_bytes, record.status = len(answer), 200
        await send_whole(send, 200, answer, [JSON_HEADER])
        record.succeeded()

    async def _resolve(
        self, operation: Operation, session: Session, row: Row
    ) -> tuple[Row, Descriptor]:
        """What is to be called for; a model that sleeps is waked, once that alone is in the way."""
        if row.asleep:
            resolve(operation, row.awake_descriptors)
            try:
                row = await self._activator.wake(session, row)
            except LoadFailed as failure:
                raise failure.as_error(row.alias) from None
        return row, resolve_on_row(operation, row)

    async def _refuse(
        self, error: ContractError, session: Session, record: OperationRecord, send: Send
    ) -> None:
        outcome = session.outcome
        record.failed(error)
        record.status = error.code.status
        body = error_body(error, outcome, error.request_id or record.request_id)
        record.response_bytes = len(body)
        await send_whole(send, error.code.status, body, error_headers(error, outcome))


def error_headers(error: ContractError, outcome: Outcome) -> Headers:
    """What tells a client library what an error means, before it reads the body.

    `x-should-retry: false` is for libraries that replay by default; `Retry-After` for refusals
    that pass by themselves.
    """
    headers = [JSON_HEADER, (b"x-pumas-outcome", outcome.encode())]
    if outcome is Outcome.UNKNOWN or error.code.status == 409:
        headers.append((b"x-should-retry", b"false"))
    if error.code is Code.CAPABILITY_UNAVAILABLE and not error.lasting:
        headers.append((b"retry-after", b"1"))
    return headers


def resolve_on_row(operation: Operation, row: Row) -> Descriptor:
    """Resolve, and say in a refusal why the model cannot serve, when that is known.

    Nobody is told to come back to a model that rests: it does not wake by itself.
    """
    try:
        return resolve(operation, row.descriptors)
    except ContractError as error:
        if error.code is not Code.CAPABILITY_UNAVAILABLE or not row.faults:
            raise
        why = "; ".join(f"{fault.reason}: {fault.message}" for fault in row.faults)
        permanent = row.error is not None and row.error.reason in PERMANENT_REASONS
        lasting = error.lasting or permanent or row.rest is not None
        raise ContractError(error.code, f"{error.message}; {why}", lasting=lasting) from None


async def _aggregate(stream: TextStream, lease: BufferLease) -> TextResult:
    """The text that a provider's stream amounts to."""
    texts: list[str] = []
    async for pieces in stream.pieces():
        if not lease.grow(sum(map(len, pieces))):
            raise lease.refusal(Code.RESPONSE_LIMIT)
        texts += pieces
    return TextResult("".join(texts), stream.reason())


async def _relay(
    request_id: str, started: bytes, stream: TextStream, record: OperationRecord, send: Send
) -> None:
    """The streamed answer. From its header on, every fault is one `failed` record at its end."""
    record.status = 200
    await send_start(send, 200, _STREAM_HEADERS)
    record.response_bytes = len(started)
    await send_piece(send, started)
    try:
        async for texts in stream.pieces():
            await _send_deltas(request_id, texts, record, send)
        last = completed_record(request_id, stream.reason())
        record.succeeded()
    except ContractError as error:
        record.failed(error)
        last = failed_record(request_id, error)
    except SessionEnded as ended:
        record.failed(ended.as_error())
        if ended.reason is EndReason.CALLER_GONE:
            return
        last = failed_record(request_id, ended.as_error())
    record.response_bytes += len(last)
    await send_end(send, last)


async def _send_deltas(
    request_id: str, texts: list[str], record: OperationRecord, send: Send
) -> None:
    """One record for each text, in few writes; those before a fault go out before it is raised."""
    piece = bytearray()
    fault: ContractError | None = None
    try:
        for text in texts:
            delta = delta_record(request_id, text)
            if record.response_bytes + len(piece) + len(delta) > _MAX_STREAM_BYTES:
                raise ContractError(
                    Code.RESPONSE_LIMIT,
                    f"the stream is over the limit of {MAX_RESPONSE_BYTES} bytes",
                )
            piece += delta
            if len(piece) >= PIECE_BYTES:
                # Not all of a chunk's deltas at once: they may be many times as long as it.
                record.response_bytes += len(piece)
                await send_piece(send, bytes(piece))
                piece.clear()
    except ContractError as error:
        fault = error
    if piece:
        record.response_bytes += len(piece)
        await send_piece(send, bytes(piece))
    if fault is not None:
        raise fault
