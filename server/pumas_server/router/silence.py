"""Why an external server tells nothing, for people: the cause, and never its address. Pure."""

from __future__ import annotations

import errno

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

_CAUSES = {
    errno.ECONNREFUSED: "the connection is refused",
    errno.ECONNRESET: "the connection is reset",
    errno.EHOSTUNREACH: "there is no way to its host",
    errno.ENETUNREACH: "there is no way to its host",
    errno.ETIMEDOUT: "no connection comes about in time",
}


def explain_silence(error: Exception) -> str:
    """What the exception that asking ended with means, without a full stop."""
    # What the client cannot read at all it calls an answer with the status 400.
    unreadable = isinstance(error.__cause__, HttpProcessingError)
    if isinstance(error, aiohttp.ClientResponseError) and not unreadable:
        return f"its /v1/models answers {error.status}"
    if isinstance(error, aiohttp.ClientError | OSError | TimeoutError):
        return f"the server does not answer: {_cause(error)}"
    return "its /v1/models is no list of models"


def _cause(error: Exception) -> str:
    match error:
        case aiohttp.ClientConnectorDNSError():
            return "its host's name is not known"
        case aiohttp.ClientConnectorCertificateError():
            return "its certificate is not trusted"
        case aiohttp.ClientConnectorSSLError():
            return "it speaks no TLS that is understood here"
        case aiohttp.ServerDisconnectedError():
            return "it closes the connection"
        case OSError(errno=int(number)) if number in _CAUSES:
            return _CAUSES[number]
        case TimeoutError():
            return "nothing comes in time"
        case _:
            return "what comes is no HTTP answer"
