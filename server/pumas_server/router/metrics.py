"""`/metrics`: what the router does, in Prometheus' text form.

Counts come from finished operations; levels (permits, sessions, bytes held) are read from their
owners when somebody asks, so they cannot drift from the truth. Labels are bounded: routes,
capabilities, codes and outcomes are closed vocabularies, models are those of the catalogue. No
address of anything is in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pumas_server.router.admission import Admission, BufferBudget
from pumas_server.router.catalog import Catalog
from pumas_server.router.connections import Connections
from pumas_server.router.media_checks import MediaChecks
from pumas_server.router.operation_log import OperationRecord
from pumas_server.router.refusals import Refusals
from pumas_server.router.sessions import Sessions
from pumas_server.router.workers import Workers

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"

# Their times of creation say nothing that the process's own start does not.
disable_created_metrics()  # type: ignore[no-untyped-call]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


#: Route, capability, code and outcome of a call.
_Kind = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class _Counted:
    """What calls of one kind are counted in. Looking it up by labels costs as much as counting."""

    operations: Counter
    seconds: Histogram
    request_bytes: Counter
    response_bytes: Counter


class Metrics:
    """The counters of one router process. One registry each: several routers do not mix."""

    def __init__(self, levels: Levels) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(levels)
        self._counted: dict[_Kind, _Counted] = {}
        labels = ("route", "capability", "code", "outcome")
        self._operations = Counter(
            "pumas_operations", "Finished calls.", labels, registry=self._registry
        )
        self._seconds = Histogram(
            "pumas_operation_duration_seconds",
            "Time from the first byte of a call to its end.",
            ("route", "capability"),
            buckets=_SECONDS,
            registry=self._registry,
        )
        self._bytes = Counter(
            "pumas_body_bytes",
            "Bytes of bodies.",
            ("route", "direction"),
            registry=self._registry,
        )

    def count(self, record: OperationRecord) -> None:
        """Count one finished call."""
        kind = (record.route, record.capability or "", record.code or "", record.outcome)
        counted = self._counted.get(kind)
        if counted is None:
            counted = self._counted[kind] = self._children(kind)
        counted.operations.inc()
        counted.seconds.observe(record.seconds)
        counted.request_bytes.inc(record.request_bytes)
        counted.response_bytes.inc(record.response_bytes)

    def _children(self, kind: _Kind) -> _Counted:
        route, capability, _, _ = kind
        return _Counted(
            self._operations.labels(*kind),
            self._seconds.labels(route, capability),
            self._bytes.labels(route, "request"),
            self._bytes.labels(route, "response"),
        )

    def render(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self._registry)


class Levels(Collector):
    """What is in use now, and what was refused, asked of those who know."""

    def __init__(
        self,
        admission: Admission,
        budget: BufferBudget,
        sessions: Sessions,
        workers: Workers,
        media: MediaChecks,
        connections: Connections,
        refusals: Refusals,
    ) -> None:
        self._connections = connections
        self._refusals = refusals
        self._media = media
        self._admission = admission
        self._budget = budget
        self._sessions = sessions
        self._workers = workers

    def collect(self) -> Iterator[Metric]:
        """One sample each, one for each endpoint that may be called, and each reason."""
        yield _gauge("pumas_permits_in_use", "Admitted calls.", self._admission.in_flight)
        yield _gauge("pumas_permits", "Calls that may be admitted.", self._admission.max_in_flight)
        yield _gauge("pumas_sessions", "Open calls, admitted or not.", len(self._sessions))
        yield _gauge("pumas_buffered_bytes", "Bytes of bodies that are held.", self._budget.held)
        yield _gauge("pumas_media_checks_in_use", "Running checks of media.", self._media.busy)
        yield _gauge("pumas_media_checks", "Checks of media that may run.", self._media.permits)
        yield _gauge("pumas_connections_in_use", "Open connections.", self._connections.open)
        yield _gauge("pumas_connections", "Connections that may be.", self._connections.most)
        yield _pods(self._workers.catalog, self._admission.by_pod)
        yield _refused(self._refusals)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


def _refused(refusals: Refusals) -> CounterMetricFamily:
    family = CounterMetricFamily(
        "pumas_refusals", "Calls and connections that a limit refused.", labels=("reason",)
    )
    for reason, count in refusals.counts.items():
        family.add_metric((reason,), count)
    return family


def _pods(catalog: Catalog, by_pod: dict[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "pumas_pod_in_flight",
        "Admitted calls of one serving pod or external server.",
        labels=("model", "profile", "pod"),
    )
    for row in catalog.rows:
        for target in row.targets:
            calls = by_pod.get(target.endpoint.url, 0)
            family.add_metric((row.alias, row.profile, target.endpoint.uid), calls)
    return family
