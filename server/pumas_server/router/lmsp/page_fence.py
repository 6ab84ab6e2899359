"""The fence that keeps web pages from loading and unloading models.

Any page that a user has open may have their browser send a POST to this machine. A browser says in
`Origin` whose page it is, which no page can change; and a page that was led here under a name of
its own (DNS rebinding) is known by the `Host` that it names. Other clients send no `Origin`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from yarl import URL

from pumas_server.router.listener import is_loopback
from pumas_server.router.lmsp.problems import ProblemCode, ProblemError

_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(slots=True)
class PageFence:
    """What an action's header is held against."""

    loopback_only: bool = False
    """The router listens where this machine alone can reach it: no other name leads here."""

    def check(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Raise `ProblemError` (400) for a request that a page of another server may have made."""
        told = [(name, value.decode("latin-1")) for name, value in headers]
        hosts = [value for name, value in told if name == b"host"]
        if self.loopback_only and not all(map(_is_this_machine, hosts)):
            raise _refusal(
                "Host", "is no name of this machine, to which alone this service listens"
            )
        for origin in (value for name, value in told if name == b"origin"):
            if not hosts or not all(_same_authority(origin, host) for host in hosts):
                raise _refusal("Origin", "is another one than `Host` names")


def _refusal(param: str, why: str) -> ProblemError:
    detail = f"a web page may not do this: `{param}` {why}"
    return ProblemError(ProblemCode.INVALID_REQUEST, detail, param=param)


def _is_this_machine(host: str) -> bool:
    name = (_read(f"http://{host}").raw_host or "").rstrip(".").lower()
    return is_loopback(name) or name.endswith(".localhost")


def _same_authority(origin: str, host: str) -> bool:
    page = _read(origin)
    called = _read(f"{page.scheme}://{host}")
    return (
        page.scheme in _DEFAULT_PORTS
        and bool(page.raw_host)
        and page.raw_host == called.raw_host
        and page.port == called.port
    )


def _read(url: str) -> URL:
    """A URL, or one that is empty where it is none."""
    try:
        return URL(url)
    except ValueError:
        return URL()
