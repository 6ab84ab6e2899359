"""A file that an HTTP server gives, read from any byte on.

Built on the standard library, since a pod imports no HTTP client. Redirects are followed, as the
hub's own are needed, but to `http` and `https` alone. What goes wrong becomes a sentence that
names neither host nor URL.
"""

from __future__ import annotations

import http.client
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus

#: A connection that says nothing for so long is given up.
SILENCE_SECONDS = 60.0
BLOCK_BYTES = 1 << 20

_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")


class Unreachable(Exception):
    """The server does not give the file; the message says why."""

    def __init__(self, message: str, *, passing: bool, absent: bool = False) -> None:
        super().__init__(message)
        self.passing = passing
        """Whether the next attempt may succeed."""
        self.absent = absent
        """Whether the server says that it has no such file."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file's bytes from `start` to its end, as they come."""

    start: int
    size: int | None
    """Size of the whole file, if the server tells."""
    validator: str
    """A strong ETag, by which a later part can be known to be of the same file; else empty."""
    _response: http.client.HTTPResponse

    def blocks(self) -> Iterator[bytes]:
        """The bytes, until the server ends them. Raises `Unreachable` if the connection breaks."""
        while True:
            with _explained():
                block = self._response.read(BLOCK_BYTES)
            if not block:
                return
            yield block


@contextmanager
def open_part(url: str, start: int = 0, validator: str = "") -> Iterator[Part]:
    """Ask for the file from byte `start` on.

    The answer may begin at 0 all the same: when the server cannot give parts, or when the file is
    no longer the one of `validator`. Raises `Unreachable`.
    """
    headers = {"Accept-Encoding": "identity", "User-Agent": "pumas-serving"}
    if start:
        headers |= {"Range": f"bytes={start}-"} | ({"If-Range": validator} if validator else {})
    request = urllib.request.Request(url, headers=headers)
    with _explained():
        response = _OPENER.open(request, timeout=SILENCE_SECONDS)
    with response:
        yield _part(response, start)


def _part(response: http.client.HTTPResponse, asked: int) -> Part:
    tag = response.headers.get("ETag", "")
    validator = tag if tag.startswith('"') else ""
    if response.status == HTTPStatus.PARTIAL_CONTENT:
        found = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if found is None or int(found[1]) != asked:
            raise Unreachable("the server sends another part than it was asked for", passing=False)
        return Part(asked, int(found[2]), validator, response)
    length = response.headers.get("Content-Length", "")
    return Part(0, int(length) if length.isdecimal() else None, validator, response)


def _build_opener() -> urllib.request.OpenerDirector:
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.UnknownHandler,
    ):
        opener.add_handler(handler())
    return opener


_OPENER = _build_opener()


@contextmanager
def _explained() -> Iterator[None]:
    """Whatever the network does, as `Unreachable`."""
    try:
        yield
    except urllib.error.HTTPError as error:
        error.close()
        passing = error.code >= 500 or error.code in (408, 425, 429)
        absent = error.code in (404, 410)
        raise Unreachable(_refusal(error.code), passing=passing, absent=absent) from None
    except urllib.error.URLError as error:
        reason = error.reason
        if not isinstance(reason, OSError):
            told = "the server refers to an address that is not one of HTTP"
            raise Unreachable(told, passing=False) from None
        told = reason.strerror or type(reason).__name__
        raise Unreachable(f"the server cannot be reached{_why(told)}", passing=True) from None
    except TimeoutError:
        raise Unreachable("the server fell silent", passing=True) from None
    except (OSError, http.client.HTTPException) as error:
        told = getattr(error, "strerror", None) or type(error).__name__
        raise Unreachable(f"the connection broke{_why(told)}", passing=True) from None


def _refusal(code: int) -> str:
    if code in (401, 403):
        return f"the server refuses it with {code}: it may be private, or ask for an agreement"
    if code in (404, 410):
        return f"the server does not have it ({code})"
    return f"the server answers {code}"


def _why(told: str) -> str:
    return f" ({told})"
