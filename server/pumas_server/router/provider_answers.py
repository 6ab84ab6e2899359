"""What a provider answered, before anything is made of it: accepted, refused, whole."""

from __future__ import annotations

from pumas_server.contract.bounds import MAX_RESPONSE_BYTES
from pumas_server.contract.errors import Code, ContractError
from pumas_server.provider.projection import provider_reason
from pumas_server.router.admission import BufferLease
from pumas_server.router.sessions import Session
from pumas_server.router.upstream import read_chunk
from pumas_server.router.upstream_answer import UpstreamAnswer

EVENT_STREAM = "text/event-stream"
JSON = "application/json"

_MAX_REASON_BYTES = 65_536


async def require(session: Session, answer: UpstreamAnswer, content_type: str) -> None:
    """Raise `ContractError` (provider_failure) unless the provider accepted, in that form."""
    if not answer.success:
        reason = await _refusal_reason(session, answer)
        told = f": {reason}" if reason else ""
        raise _failure(f"the provider answered {answer.status}{told}")
    if answer.content_type != content_type:
        raise _failure(f"the provider answered with something else than {content_type}")
    if (answer.header(b"content-encoding") or b"identity") != b"identity":
        raise _failure("the provider answered with an encoding nobody asked for")


async def read_whole(session: Session, answer: UpstreamAnswer, lease: BufferLease) -> bytes:
    """A finite body. Raises `ContractError`: response_limit over the bound or the budget."""
    pieces: list[bytes] = []
    size = 0
    while piece := await read_chunk(session, answer):
        size += len(piece)
        if size > MAX_RESPONSE_BYTES:
            raise ContractError(
                Code.RESPONSE_LIMIT,
                f"the provider's answer is over the limit of {MAX_RESPONSE_BYTES} bytes",
            )
        if not lease.grow(len(piece)):
            raise lease.refusal(Code.RESPONSE_LIMIT)
        pieces.append(piece)
    return b"".join(pieces)


def _failure(message: str) -> ContractError:
    return ContractError(Code.PROVIDER_FAILURE, message)


async def _refusal_reason(session: Session, answer: UpstreamAnswer) -> str:
    """The provider's own reason in an error answer, redacted; empty when it gives none."""
    body = bytearray()
    try:
        while len(body) <= _MAX_REASON_BYTES and (chunk := await read_chunk(session, answer)):
            body += chunk
    except ContractError as error:
        # The status is known and decides; only the reason is lost with the connection.
        if error.code is not Code.TRANSPORT_LOST:
            raise
        return ""
    return provider_reason(bytes(body))
