"""Objects as a Kubernetes API server gives them, and the judgement of what we build."""

from __future__ import annotations

import json
from typing import Any

import yaml

from pumas_crds.vocabulary import SPEC_HASH_ANNOTATION

HASH = "0123456789abcdef"


def condition(kind: str, status: str, **told: Any) -> dict[str, Any]:
    """A condition of any object."""
    return {"type": kind, "status": status, **told}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    """The state of a container that waits."""
    return {"waiting": {"reason": reason} | ({"message": message} if message else {})}


def terminated(exit_code: int = 0, message: str = "", reason: str = "") -> dict[str, Any]:
    """The state of a container that has ended."""
    end = {
        "exitCode": exit_code,
        "reason": reason or ("Completed" if exit_code == 0 else "Error"),
        "startedAt": "2030-01-01T00:00:00Z",
        "finishedAt": "2030-01-01T00:00:01Z",
    }
    return {"terminated": end | ({"message": message} if message else {})}


RUNNING: dict[str, Any] = {"running": {"startedAt": "2030-01-01T00:00:00Z"}}


def container(
    name: str,
    state: dict[str, Any] | None = None,
    last: dict[str, Any] | None = None,
    restarts: int = 0,
) -> dict[str, Any]:
    """The status of one container."""
    return {
        "name": name,
        "ready": False,
        "restartCount": restarts,
        "state": state or {},
        "lastState": last or {},
        "image": "registry.example/pumas-worker:1",
        "imageID": "",
    }


def pod(
    name: str = "tiny-serving-abc",
    *,
    fetch: dict[str, Any] | None = None,
    server: dict[str, Any] | None = None,
    inspect: dict[str, Any] | None = None,
    conditions: list[dict[str, Any]] | None = None,
    spec_hash: str = HASH,
    created: str = "2030-01-01T00:00:00Z",
    **rest: Any,
) -> dict[str, Any]:
    """A Pod with the status of its containers; `rest` goes into its status."""
    body: dict[str, Any] = {
        "metadata": {
            "name": name,
            "uid": f"uid-of-{name}",
            "creationTimestamp": created,
            "annotations": {SPEC_HASH_ANNOTATION: spec_hash},
        },
        "status": {"phase": "Pending", "conditions": conditions or [], **rest},
    }
    if fetch is not None:
        body["status"]["initContainerStatuses"] = [{**container("fetch"), **fetch}]
    if server is not None:
        body["status"]["containerStatuses"] = [{**container("server"), **server}]
    if inspect is not None:
        body["status"]["containerStatuses"] = [{**container("inspect"), **inspect}]
    return body


def written(manifest: object) -> str:
    """A manifest as YAML: through JSON, so that repeated parts are written out."""
    return yaml.safe_dump(json.loads(json.dumps(manifest)), sort_keys=False, width=1000)
