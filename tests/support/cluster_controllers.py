"""Whoever plays Kubernetes: pods of Deployments and Jobs, their ends, slices, and orphans.

Everything happens a moment after what caused it. A kubelet that obliges has pods ready and Jobs
done by themselves; one that does not leaves that to whoever moves them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from pumas_crds.vocabulary import MODEL_UID_LABEL, SPEC_HASH_ANNOTATION
from pumas_operator.kinds import CHILDREN, DEPLOYMENT, JOB, POD, SERVED_MODEL, Kind
from pumas_operator.objects import owner_of, owners_of
from support.kubelet_pods import DRAIN_SECONDS, FILE, NO_MODEL, Phase, ServingPod
from support.kubernetes import container, terminated
from support.kubernetes import pod as pod_object
from support.shared_api import SLICE, Change, SharedApi

TEAM = "team"
SYNC_SECONDS = 0.2
JOB_SECONDS, START_SECONDS, RECOVER_SECONDS, JOB_KEPT_SECONDS = 1.0, 2.0, 8.0, 120.0


class Controllers:
    """The cluster beside its API server."""

    def __init__(self, api: SharedApi, dated: Callable[[], str]) -> None:
        self._api = api
        self._dated = dated
        self.pods: dict[str, ServingPod] = {}
        """By uid, those that are there."""
        self.obliges = True
        self.file_good = True
        self.moved_at = 0.0
        """When a pod last became something else."""
        self._made = 0
        self._due: asyncio.TimerHandle | None = None
        self._jobs_done: dict[str, float] = {}
        api.listeners.append(self._heard)

    def soon(self) -> None:
        """Look at everything in a moment."""
        if self._due is None:
            loop = asyncio.get_running_loop()
            self._due = loop.call_later(SYNC_SECONDS, self._sync)

    def close(self) -> None:
        """Do nothing any more."""
        if self._due is not None:
            self._due.cancel()

    def at(self, address: str) -> ServingPod | None:
        """The pod of an address."""
        return next((pod for pod in self.pods.values() if pod.address == address), None)

    def move(self, pod: ServingPod, phase: Phase) -> None:
        """A pod becomes something else."""
        if pod.phase is phase or pod.gone:
            return
        self.moved_at = asyncio.get_running_loop().time()
        pod.become(phase)
        self.soon()

    def open_jobs(self) -> list[dict[str, Any]]:
        """Inspections without a verdict."""
        return [job for job in self._api.all(JOB) if job["metadata"]["uid"] not in self._jobs_done]

    def finish(self, job: dict[str, Any]) -> None:
        """An inspection ends, with a verdict on the file as it is now."""
        uid = job["metadata"]["uid"]
        if (
            uid in self._jobs_done
            or self._api.away
            or (TEAM, job["metadata"]["name"]) not in (self._api.cluster.objects.get(JOB, {}))
        ):
            return
        self._jobs_done[uid] = asyncio.get_running_loop().time()
        told = {"file": FILE} if self.file_good else {"error": NO_MODEL}
        end = container("inspect", terminated(0, json.dumps(told)))
        body = pod_object(f"{job['metadata']['name']}-pod", inspect=end, created=self._dated())
        body["metadata"] |= {
            "namespace": TEAM,
            "uid": f"pod-of-{uid}",
            "labels": job["spec"]["template"]["metadata"]["labels"],
            "annotations": job["spec"]["template"]["metadata"]["annotations"],
            "ownerReferences": [{"kind": "Job", "uid": uid}],
        }
        self._api.cluster.put(POD, body)
        self._api.cluster.put(JOB, {**job, "status": {"succeeded": 1}})
        asyncio.get_running_loop().call_later(JOB_KEPT_SECONDS + 1, self.soon)

    def _heard(self, kind: Kind, change: Change) -> None:
        if kind in (DEPLOYMENT, JOB, SERVED_MODEL):
            self.soon()

    def _sync(self) -> None:
        self._due = None
        if self._api.away:
            self.soon()
            return
        self._collect()
        now = asyncio.get_running_loop().time()
        for deployment in self._api.all(DEPLOYMENT):
            self._scale(deployment, now)
        for job in self._api.all(JOB):
            done = self._jobs_done.get(job["metadata"]["uid"])
            if done is None and self.obliges:
                asyncio.get_running_loop().call_later(JOB_SECONDS, self.finish, job)
            elif done is not None and now - done >= JOB_KEPT_SECONDS:
                self._drop(JOB, job)
                self.soon()
        self._tend(now)
        self._slices()

    def _collect(self) -> None:
        """What nobody owns any more goes."""
        alive = {body["metadata"]["uid"] for body in self._api.all(SERVED_MODEL)}
        for kind in (*CHILDREN.values(), JOB, SLICE):
            for body in self._api.all(kind):
                if owner_of(body) not in alive:
                    self._drop(kind, body)
        owners = {b["metadata"]["uid"] for kind in (DEPLOYMENT, JOB) for b in self._api.all(kind)}
        for body in self._api.all(POD):
            serving = self.pods.get(body["metadata"]["uid"])
            if not owners_of(body) & owners:
                if serving is None:
                    self._drop(POD, body)
                else:
                    self._end(serving)

    def _drop(self, kind: Kind, body: dict[str, Any]) -> None:
        self._api.cluster.drop(kind, TEAM, body["metadata"]["name"])

    def _scale(self, deployment: dict[str, Any], now: float) -> None:
        spec, uid = deployment["spec"], deployment["metadata"]["uid"]
        template = spec["template"]["metadata"]
        mine = [pod for pod in self.pods.values() if pod.deployment == uid]
        live = [pod for pod in mine if pod.ends_at is None]
        digest = template["annotations"][SPEC_HASH_ANNOTATION]
        new = [p for p in live if p.template["annotations"][SPEC_HASH_ANNOTATION] == digest]
        for old in (p for p in live if p not in new):
            self._end(old)
        for surplus in new[spec["replicas"] :]:
            self._end(surplus)
        if len(new) == len(mine):
            for _ in range(spec["replicas"] - len(new)):
                self._make(template, uid, now)

    def _make(self, template: dict[str, Any], deployment: str, now: float) -> None:
        self._made += 1
        name, address = f"tiny-serving-{self._made:03}", f"192.0.2.{self._made}"
        made = ServingPod(name, address, template, deployment, self._dated(), now, since=now)
        made.phase = Phase.STARTING if self.file_good else Phase.REFUSED
        self.pods[made.uid] = made
        self.moved_at = now
        self._write(made)

    def _end(self, pod: ServingPod) -> None:
        if pod.ends_at is None:
            pod.ends_at = self.moved_at = asyncio.get_running_loop().time()

    def _tend(self, now: float) -> None:
        """Kubelets do what time brings, and their pods' objects follow."""
        held = self._api.cluster.objects.get(POD, {})
        for pod in tuple(self.pods.values()):
            if pod.ends_at is not None:
                over = now - pod.ends_at >= DRAIN_SECONDS or pod.phase is not Phase.READY
                if over or (not pod.calls and now - pod.ends_at >= 1):
                    pod.gone = True
                    del self.pods[pod.uid]
                    self._drop(POD, held[TEAM, pod.name])
                    self.moved_at = now
                    self.soon()
                    continue
                self.soon()
            elif self.obliges and pod.phase is not Phase.READY:
                waits = START_SECONDS if pod.phase is Phase.STARTING else RECOVER_SECONDS
                refused = pod.phase is Phase.REFUSED and not self.file_good
                if now - pod.since >= waits and not refused:
                    self.move(pod, Phase.READY)
                elif not refused:
                    self.soon()
            self._write(pod)

    def _write(self, pod: ServingPod) -> None:
        body = pod.render()
        held = self._api.cluster.objects.get(POD, {}).get((TEAM, pod.name))
        if (
            held is None
            or held["status"] != body["status"]
            or (
                ("deletionTimestamp" in held["metadata"])
                != ("deletionTimestamp" in body["metadata"])
            )
        ):
            self._api.cluster.put(POD, body)

    def _slices(self) -> None:
        for model in self._api.all(SERVED_MODEL):
            uid, name = model["metadata"]["uid"], model["metadata"]["name"]
            mine = [
                p for p in self.pods.values() if p.model_uid == uid and p.phase is not Phase.IMAGE
            ]
            held = self._api.cluster.objects.get(SLICE, {}).get((TEAM, f"{name}-{uid}"))
            entries = [pod.entry() for pod in mine]
            if (held or {}).get("endpoints", []) == entries:
                continue
            owner = {
                "apiVersion": model["apiVersion"],
                "kind": "ServedModel",
                "uid": uid,
                "controller": True,
            }
            metadata = {
                "name": f"{name}-{uid}",
                "namespace": TEAM,
                "labels": {MODEL_UID_LABEL: uid},
                "ownerReferences": [owner],
            }
            body = {"metadata": metadata, "addressType": "IPv4", "endpoints": entries, "ports": []}
            if held is not None:
                metadata["uid"] = held["metadata"]["uid"]
            self._api.cluster.put(SLICE, body)
