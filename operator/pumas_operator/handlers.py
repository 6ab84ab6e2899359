"""kopf's part: watches, and nothing else. Every handler hands its object to the intake.

All are `on.event` handlers that return nothing and leave `patch` alone, so kopf writes nothing: no
finalizer, no annotation, no status. The API server is asked for our objects only (label selectors).
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import kopf

from pumas_operator.intake import WATCHED, Watched
from pumas_operator.json_object import Json
from pumas_operator.kinds import LEASE, Kind

#: The server ends a watch after this, and kopf begins the next one where it ended.
WATCH_SECONDS = 290
#: A bookmark comes every minute: without one for this long a connection is dead.
SILENCE_SECONDS = 90.0
_PAUSES = (0.5, 1.0, 2.0, 3.0)
_LONGEST_PAUSE = 5.0


class Sink(Protocol):
    """Where objects go."""

    def seen(self, kind: Kind, body: Json) -> None:
        """An object is there, or has changed."""

    def gone(self, kind: Kind, body: Json) -> None:
        """An object was deleted."""

    def relisted(self) -> None:
        """Objects were listed and not watched: what was deleted meanwhile is told by nobody."""


class _Pauses:
    """Between attempts to reach an API server that is away: for ever, and never long."""

    def __iter__(self) -> Iterator[float]:
        return itertools.chain(_PAUSES, itertools.repeat(_LONGEST_PAUSE))


def build_registry(
    sink: Sink, *, at_home: bool, lease: str = "", pulse: Callable[[], None] | None = None
) -> kopf.OperatorRegistry:
    """The handlers of what is watched at home, or of what is watched where models are.

    `pulse` is called at every event about the Lease of that name at home: the leader renews it, so
    a pulse that stays away means that events have ceased to flow.
    """
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(_log_in)
    for watched in WATCHED:
        if watched.at_home is at_home:
            _watch(registry, sink, watched)
    if pulse is not None:
        _feel(registry, lease, pulse)
    return registry


def build_settings(*, at_home: bool) -> kopf.OperatorSettings:
    """kopf's settings: bounded watches, no writes, no look at namespaces and CRDs."""
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True
    settings.posting.enabled = False
    settings.watching.server_timeout = WATCH_SECONDS
    settings.watching.client_timeout = WATCH_SECONDS + 30
    settings.watching.connect_timeout = 10
    settings.watching.inactivity_timeout = SILENCE_SECONDS
    settings.watching.chunk_size = 100
    settings.networking.error_backoffs = _Pauses()
    for watched in WATCHED:
        if watched.at_home is at_home and watched.selector:
            settings.watching.label_selectors[_names(watched.kind)] = watched.selector
    return settings


def _watch(registry: kopf.OperatorRegistry, sink: Sink, watched: Watched) -> None:
    kind = watched.kind

    @kopf.on.event(*_names(kind), registry=registry, id=kind.plural)
    async def take(event: kopf.RawEvent, **_: object) -> None:
        body = event["object"]
        if event["type"] == "DELETED":
            sink.gone(kind, body)
            return
        sink.seen(kind, body)
        if event["type"] is None:
            sink.relisted()


def _feel(registry: kopf.OperatorRegistry, lease: str, pulse: Callable[[], None]) -> None:
    @kopf.on.event(*_names(LEASE), registry=registry, id="pulse")
    async def feel(name: str | None, **_: object) -> None:
        if name == lease:
            pulse()


def _names(kind: Kind) -> tuple[str, str, str]:
    group, _, version = kind.api_version.rpartition("/")
    return group, version, kind.plural


async def _log_in(**told: Any) -> kopf.ConnectionInfo | None:
    account = kopf.login_with_service_account(**told)
    if account is None:
        return kopf.login_with_kubeconfig(**told)
    # By address, as the kubelet tells it: a cluster whose DNS is down still gets its pods.
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    return replace(account, server=f"https://{f'[{host}]' if ':' in host else host}:{port}")
