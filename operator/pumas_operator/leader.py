"""Leadership: of several operators one writes, the one that holds the Lease.

The holder renews it; whoever finds it not renewed for `LEASE_SECONDS` by its own clock takes it
over, so that clocks need not agree. A holder that could not renew in time writes nothing more
(`valid`), which also stops one that was paused and does not know it. It goes on if the Lease is
still its own when the API server is back, and ends when another has it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic

from pumas_crds.vocabulary import PART_OF_LABEL, PART_OF_VALUE
from pumas_operator.cluster import Cluster, Refused, Unreachable
from pumas_operator.json_object import Json, member, text, whole
from pumas_operator.kinds import LEASE
from pumas_operator.labels import Object
from pumas_operator.requests import build_get, build_lease_write

_log = logging.getLogger(__name__)

LEASE_SECONDS = 30
RENEW_SECONDS = 10.0
LOOK_SECONDS = 5.0
#: Shorter than the Lease: a holder stops writing before another may begin.
VALID_SECONDS = 20.0

_CONFLICT, _NOT_FOUND = 409, 404


class LeadershipLost(Exception):
    """Another operator leads."""


class Leader:
    """One operator's claim to the Lease."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        name: str,
        identity: str,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._cluster = cluster
        self._namespace, self._name = namespace, name
        self._identity = identity
        self._clock = clock
        self._renewed_at: float | None = None
        self.unreachable: Callable[[], None] = lambda: None
        """Told of each renewal that the API server did not answer."""
        self._seen: tuple[str, float] = ("", 0.0)
        self._held_by_other = False

    def valid(self) -> bool:
        """Whether this operator leads now, so that it may write."""
        at = self._renewed_at
        return at is not None and self._clock() - at < VALID_SECONDS

    @property
    def renewed_at(self) -> float | None:
        """When the Lease was last renewed, by the clock."""
        return self._renewed_at

    async def acquire(self) -> None:
        """Wait until this operator leads."""
        waiting = False
        while not await self.attempt():
            if not waiting:
                _log.info("another operator leads; this one waits")
                waiting = True
            await asyncio.sleep(LOOK_SECONDS)
        _log.info("this operator leads")

    async def hold(self) -> None:
        """Renew for ever. Raises `LeadershipLost` when another operator has the Lease."""
        while True:
            await asyncio.sleep(RENEW_SECONDS if self.valid() else LOOK_SECONDS)
            if not await self.attempt() and self._held_by_other:
                raise LeadershipLost

    async def attempt(self) -> bool:
        """Renew or take the Lease if it may be had; whether this operator has it now."""
        asked_at = self._clock()
        try:
            lease = await self._read()
            holder = text(member(lease, "spec"), "holderIdentity")
            self._held_by_other = bool(holder) and holder != self._identity
            if self._held_by_other and not self._expired(lease):
                return False
            await self._cluster.send(build_lease_write(self._claimed(lease, holder)))
        except Refused as error:
            if error.status != _CONFLICT:
                _log.warning("the Lease cannot be had: %s", error.message)
            return False
        except Unreachable as error:
            _log.warning("the Lease cannot be renewed: %s", error)
            self.unreachable()
            return False
        self._held_by_other = False
        # From before the request: that is when the API server may have begun to count.
        self._renewed_at = asked_at
        return True

    async def _read(self) -> Json:
        try:
            return await self._cluster.send(build_get(LEASE, self._namespace, self._name))
        except Refused as error:
            if error.status != _NOT_FOUND:
                raise
            return {}

    def _expired(self, lease: Json) -> bool:
        """Whether the Lease has not changed for its whole time, by this process's clock."""
        version = text(member(lease, "metadata"), "resourceVersion")
        if self._seen[0] != version:
            self._seen = (version, self._clock())
        return self._clock() - self._seen[1] >= LEASE_SECONDS

    def _claimed(self, lease: Json, holder: str) -> Object:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        before = member(lease, "spec")
        ours = holder == self._identity
        spec: Object = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": LEASE_SECONDS,
            "acquireTime": text(before, "acquireTime") if ours else now,
            "renewTime": now,
            "leaseTransitions": whole(before, "leaseTransitions") + (not ours),
        }
        labels = member(member(lease, "metadata"), "labels")
        metadata: Object = {
            "name": self._name,
            "namespace": self._namespace,
            # One watch by this label sees our own Lease and those of demand.
            "labels": {**labels, PART_OF_LABEL: PART_OF_VALUE},
        }
        version = text(member(lease, "metadata"), "resourceVersion")
        if version:
            metadata["resourceVersion"] = version
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.name,
            "metadata": metadata,
            "spec": spec,
        }

    async def release(self) -> None:
        """Give the Lease up, so that the next one need not wait for its end."""
        if not self.valid():
            return
        self._renewed_at = None
        try:
            lease = await self._read()
            if text(member(lease, "spec"), "holderIdentity") == self._identity:
                emptied = {**member(lease, "spec"), "holderIdentity": ""}
                await self._cluster.send(build_lease_write({**lease, "spec": emptied}))
        except (Refused, Unreachable) as error:
            _log.info("the Lease was not given up and ends by itself: %s", error)
