"""An origin: where an endpoint's URL leads to, read once and kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from yarl import URL

_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origin:
    """Whom to connect to. Endpoints with equal origins share connections."""

    host: str
    port: int
    tls: bool


@dataclass(frozen=True, slots=True)
class Place:
    """An endpoint's URL, as a request needs it."""

    origin: Origin
    authority: bytes
    """The value of the `host` field: without the port where it is the scheme's own."""
    prefix: bytes
    """What stands before the path of every request; empty for most."""


@lru_cache(8192)
def place_of(url: str) -> Place:
    """The place that `http(s)://host[:port][/prefix]` names. Raises `ValueError` if it is none."""
    parts = URL(url)
    if parts.raw_host is None or parts.port is None or parts.scheme not in _DEFAULT_PORTS:
        raise ValueError("no URL of an HTTP server")
    origin = Origin(parts.raw_host, parts.port, parts.scheme == "https")
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    usual = origin.port == _DEFAULT_PORTS[parts.scheme]
    authority = host if usual else f"{host}:{origin.port}"
    return Place(origin, authority.encode(), parts.raw_path.rstrip("/").encode())
