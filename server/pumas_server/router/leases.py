"""Leases as a router writes them into its own namespace. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

API_VERSION = "coordination.k8s.io/v1"
#: Who changed which field, as the API server notes it down.
FIELD_MANAGER = {"fieldManager": "pumas-router"}


def collection(namespace: str) -> str:
    """The path of a namespace's Leases."""
    return f"/apis/{API_VERSION}/namespaces/{namespace}/leases"


def build_lease(
    name: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    holder: str,
    seconds: int,
    now: datetime,
) -> dict[str, object]:
    """A Lease that is held from now on for so many seconds."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Lease",
        "metadata": {"name": name, "labels": dict(labels), "annotations": dict(annotations)},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": seconds,
            "renewTime": micro_time(now),
        },
    }


def micro_time(moment: datetime) -> str:
    """Kubernetes' MicroTime, which takes no other number of digits."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def utc_now() -> datetime:
    """The time by this machine's clock."""
    return datetime.now(UTC)
