"""Who asked the API server for what, by its audit log; with the cluster of `make cluster` alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from support.cluster import DATA

AUDIT_LOG = DATA / "log" / "audit.log"
READS = frozenset({"get", "list", "watch"})


@dataclass(frozen=True)
class Asked:
    """A request that the API server has answered, or begun to answer."""

    account: str
    """`namespace:name` of the service account."""
    pod: str
    """The pod that asked; empty where its token does not tell."""
    verb: str
    group: str
    resource: str
    """With its subresource, as `pods/log`."""
    namespace: str
    name: str
    code: int
    allowed: bool
    """By the roles; what is allowed may still be refused, as by a quota."""

    @property
    def grant(self) -> tuple[str, str, str]:
        """What a role must allow for it: group, resource, verb."""
        return self.group, self.resource, self.verb


def size() -> int:
    """How long the log is now: what is asked from now on stands behind it."""
    return AUDIT_LOG.stat().st_size


def asked(account: str, since: int = 0) -> Iterator[Asked]:
    """What this account has asked for since the log was so long, once for each request.

    A watch is there when it has begun, all else when it is over.
    """
    with AUDIT_LOG.open("rb") as log:
        log.seek(since)
        for line in log:
            if not line.endswith(b"\n"):
                return  # it is being written
            if account.encode() in line:
                event = json.loads(line)
                if _counts(event) and _account(event) == account:
                    yield _read(event)


def _counts(event: dict[str, Any]) -> bool:
    began: bool = event["stage"] == "ResponseStarted"
    if event["verb"] == "watch":
        return began or event["responseStatus"]["code"] != 200
    return not began


def _account(event: dict[str, Any]) -> str:
    prefix = "system:serviceaccount:"
    name: str = event["user"]["username"]
    return name.removeprefix(prefix) if name.startswith(prefix) else ""


def _read(event: dict[str, Any]) -> Asked:
    about = event.get("objectRef", {})
    parts = (about.get("resource", ""), about.get("subresource", ""))
    [pod] = event["user"].get("extra", {}).get("authentication.kubernetes.io/pod-name", [""])
    return Asked(
        account=_account(event),
        pod=pod,
        verb=event["verb"],
        group=about.get("apiGroup", ""),
        resource="/".join(part for part in parts if part),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        code=event.get("responseStatus", {}).get("code", 0),
        allowed=event["annotations"]["authorization.k8s.io/decision"] == "allow",
    )
