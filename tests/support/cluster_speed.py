"""How fast and how large the product is on a cluster: measured for `make bench-cluster` and tests.

Moments are taken by one clock where a change and its consequence both become visible to a client of
the API server, so that neither side of a difference has a head start.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import aiohttp
import httpx
from kubernetes.aio import client, config

from pumas_crds.vocabulary import API_VERSION, NAME_LABEL, WORKER_NAME
from pumas_operator.cluster import ApiServer
from pumas_operator.kinds import SERVED_MODEL
from pumas_operator.requests import Request
from support import audit_log
from support.cluster import Kubectl, kubectl_environment, soon
from support.cluster_watch import watching
from support.release import LAB, Release, served_model

SERVABLE_SECONDS = 120


def apply_until_servable(team: Kubectl, name: str, source: dict[str, Any]) -> float:
    """Seconds from the beginning of `kubectl apply` to the condition."""
    alias = f"{name}-{team.namespace}"
    began = time.monotonic()
    team.apply(served_model(name, source=source, alias=alias))
    wait = f"--timeout={SERVABLE_SECONDS}s"
    team("wait", "--for=condition=Servable", wait, f"servedmodel/{name}")
    return time.monotonic() - began


def apply_until_available(team: Kubectl, name: str) -> float:
    """The same for a bare Deployment with the very pods of the model of that name: no inspection."""
    told = team.get("deployment", f"{name}-serving")
    labels = {"app": f"{name}-bare"}
    template = told["spec"]["template"]
    template["metadata"] = {"labels": labels}
    bare = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"{name}-bare"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    began = time.monotonic()
    team.apply(bare)
    wait = f"--timeout={SERVABLE_SECONDS}s"
    team("wait", "--for=condition=Available", wait, f"deployment/{name}-bare")
    took = time.monotonic() - began
    team("delete", "deployment", f"{name}-bare", "--wait=false")
    return took


@dataclass(frozen=True)
class Waking:
    """How long a call of a model that sleeps waits for its first byte."""

    call_seconds: float
    """From the call."""
    start_seconds: float
    """From the start of the serving container, which Kubernetes tells in whole seconds."""


def waking(release: Release, team: Kubectl, name: str, source: dict[str, Any]) -> Waking:
    """Wake a model of its own once."""
    alias = f"{name}-{team.namespace}"
    activation = {"onDemand": True}
    team.apply(served_model(name, source=source, alias=alias, replicas=0, activation=activation))
    team("wait", "--for=condition=Accepted", "--timeout=120s", f"servedmodel/{name}")
    with httpx.Client(base_url=release.direct_url(), trust_env=False, timeout=120) as caller:
        path = f"/v1/capabilities?model={alias}&profile={LAB}"
        soon(lambda: caller.get(path).json().get("activation"), "the router to know it", 10)
        message = {"role": "user", "content": "hello"}
        asked = {"model": alias, "max_tokens": 2, "messages": [message]}
        began = time.time()
        caller.post("/v1/chat/completions", json=asked).raise_for_status()
        answered = time.time()
    [pod] = team.get("pods", "-l", _label(team, name))["items"]
    [server] = pod["status"]["containerStatuses"]
    started = datetime.fromisoformat(server["state"]["running"]["startedAt"]).timestamp()
    return Waking(answered - began, answered - started)


@dataclass(frozen=True)
class Reaction:
    """How long after a change of a pod somebody said what is true of the model now."""

    status_seconds: float
    """The change of the Pod, to the status that tells it."""
    router_seconds: float
    """The change of the EndpointSlice, to the router's discovery that tells it."""


def reactions(release: Release, team: Kubectl, name: str, faults: int) -> Iterator[Reaction]:
    """Kill the model's only pod again and again; two changes a fault: it goes, another comes."""
    alias = f"{name}-{team.namespace}"
    url = f"{release.direct_url()}/v1/capabilities"
    path = f"/api/v1/namespaces/{team.namespace}/pods"
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{team.namespace}/endpointslices"
    models = f"/apis/{API_VERSION}/namespaces/{team.namespace}/servedmodels"
    query = {"model": alias, "profile": LAB}
    with (
        watching(path) as pods,
        watching(slices) as ends,
        watching(models) as statuses,
        httpx.Client(trust_env=False) as caller,
    ):

        def available() -> bool:
            told = caller.get(url, params=query).json()
            rows = told.get("capabilities", [])
            return any(row["availability"]["state"] == "available" for row in rows)

        for _ in range(faults):
            began = time.monotonic()
            team("delete", "pod", "-l", _label(team, name), "--grace-period=0", "--force")
            gone = _change(began, began, available, pods, ends, up=False)
            told = statuses.first(lambda _, o: not _servable(o), began, 30)
            yield Reaction(told - gone.pod, gone.discovered - gone.end)
            # What was told before it went may say that it is there; and of two watches neither
            # is ahead of the other.
            come = _change(gone.pod, gone.end, available, pods, ends, up=True)
            told = statuses.first(lambda _, o: _servable(o), told, 30)
            yield Reaction(told - come.pod, come.discovered - come.end)


def _label(team: Kubectl, name: str) -> str:
    selector: str = team.get("servedmodel", name)["status"]["selector"]
    return selector


@dataclass(frozen=True)
class _Change:
    """When a pod, its endpoint and discovery told that it is there, or is not."""

    pod: float
    end: float
    discovered: float


def _change(
    pod_since: float, end_since: float, available: Any, pods: Any, ends: Any, *, up: bool
) -> _Change:
    # Discovery is asked all the time: there is nothing to be told by.
    deadline = pod_since + SERVABLE_SECONDS
    while available() is not up:
        assert time.monotonic() < deadline, "discovery tells nothing of the change"
    discovered = time.monotonic()
    pod = pods.first(
        lambda kind, o: _is_serving(o) and _answers(kind, o) is up, pod_since, SERVABLE_SECONDS
    )
    end = ends.first(lambda kind, o: _listed(kind, o) is up, end_since, 30)
    return _Change(pod, end, discovered)


def _is_serving(pod: dict[str, Any]) -> bool:
    """Whether it is none that inspects."""
    name: str = pod["metadata"]["labels"].get(NAME_LABEL, "")
    return name == WORKER_NAME


def _answers(kind: str, pod: dict[str, Any]) -> bool:
    going = kind == "DELETED" or "deletionTimestamp" in pod["metadata"]
    conditions = pod.get("status", {}).get("conditions", [])
    return not going and any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _listed(kind: str, piece: dict[str, Any]) -> bool:
    ready = [e.get("conditions", {}).get("ready") for e in piece.get("endpoints") or []]
    return kind != "DELETED" and any(ready)


def _servable(body: dict[str, Any]) -> bool:
    conditions = body.get("status", {}).get("conditions", [])
    return any(c["type"] == "Servable" and c["status"] == "True" for c in conditions)


@dataclass(frozen=True)
class Size:
    """An operator with many models."""

    restart_seconds: float
    """From its start to the last status of the generation that each model had got meanwhile."""
    memory_mebibytes: float
    idle_writes: int
    """In a minute in which nothing changes, beside the Lease."""
    idle_reads: int


def operator_size(
    release: Release, team: Kubectl, source: dict[str, Any], at_zero: int, running: int
) -> Size:
    """Fill the cluster while the operator is away, let it begin, then leave it alone.

    The models at zero are given the verdict on their file, which is that of the ones that run, as a
    restored backup would: inspecting 200 files is the cluster's work and not the operator's.
    """
    for number in range(running):
        name = f"r{number}"
        team.apply(served_model(name, source=source, alias=f"{name}-{team.namespace}"))
    team("wait", "--for=condition=Servable", "--timeout=300s", "servedmodel", "--all")
    known = team.get("servedmodel", "r0")["status"]
    scale = ("scale", f"deployment/{release.operator}")
    release.kubectl(*scale, "--replicas=0")
    pods = ("get", "pods", "-l", "app.kubernetes.io/component=operator", "-o", "name")
    soon(lambda: not release.kubectl(*pods), "the operator's end")
    kept = {part: known[part] for part in ("file", "inspectionHash", "observedGeneration")}
    try:
        asyncio.run(_fill(team.namespace, source, at_zero, kept | {"loadState": "unloaded"}))
        team("patch", "servedmodel", "r0", "--type=merge", "-p", '{"spec":{"drainSeconds":7}}')
    finally:
        began = time.monotonic()
        release.kubectl(*scale, "--replicas=1")
    release.wait()

    def settled() -> bool:
        rows = team.get("servedmodel")["items"]
        return len(rows) == at_zero + running and all(map(_told, rows))

    soon(settled, "every model's status", 600)
    restart = time.monotonic() - began
    team("wait", "--for=condition=Ready", "--timeout=120s", "servedmodel", "--all")
    soon(lambda: len(team.get("pods", "-l", _label(team, "r0"))["items"]) == 1, "r0's one pod")
    writes, reads = _idle(release)
    memory = release.kubectl(
        *("exec", f"deployment/{release.operator}", "--", "cat", "/proc/1/status")
    )
    resident = next(line for line in memory.splitlines() if line.startswith("VmRSS"))
    return Size(restart, int(resident.split()[1]) / 1024, writes, reads)


async def _fill(namespace: str, source: dict[str, Any], count: int, status: dict[str, Any]) -> None:
    gate = asyncio.Semaphore(16)

    async def one(cluster: ApiServer, number: int) -> None:
        name = f"z{number}"
        body = served_model(name, source=source, alias=f"{name}-{namespace}", replicas=0)
        async with gate:
            await cluster.send(Request("POST", SERVED_MODEL.path(namespace), body))
            await cluster.send(
                Request(
                    "PATCH",
                    SERVED_MODEL.path(namespace, name, "status"),
                    {"status": status},
                    "application/merge-patch+json",
                )
            )

    async with _admin() as cluster:
        await asyncio.gather(*(one(cluster, number) for number in range(count)))


@asynccontextmanager
async def _admin() -> AsyncIterator[ApiServer]:
    """The API server as kubectl reaches it in the tests."""
    configuration = client.Configuration()
    await config.load_kube_config(  # type: ignore[no-untyped-call]
        config_file=kubectl_environment()["KUBECONFIG"], client_configuration=configuration
    )
    async with client.ApiClient(configuration) as api, aiohttp.ClientSession() as session:
        yield ApiServer(api, session)


def _told(body: dict[str, Any]) -> bool:
    status = body.get("status", {})
    return bool(status.get("conditions")) and (
        status["observedGeneration"] == body["metadata"]["generation"]
    )


def _idle(release: Release) -> tuple[int, int]:
    """Writes and reads of the operator in a quiet minute, by the audit log, beside those of its Lease."""
    since = audit_log.size()
    time.sleep(60)  # what a minute brings can only be seen by letting it pass
    account = f"{release.namespace}:{release.operator}"
    asked = [each for each in audit_log.asked(account, since) if not _is_lease(each)]
    reads = sum(each.verb in audit_log.READS for each in asked)
    return len(asked) - reads, reads


def _is_lease(asked: audit_log.Asked) -> bool:
    return asked.resource == "leases" and asked.verb != "watch"
