"""An operator on an API server in memory, with somebody who plays the cluster's controllers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pumas_crds.facts import PodDescriptor
from pumas_crds.vocabulary import SPEC_HASH_ANNOTATION
from pumas_operator.describing import Describer
from pumas_operator.kinds import (
    DEPLOYMENT,
    DISRUPTION_BUDGET,
    JOB,
    NETWORK_POLICY,
    POD,
    SECRET,
    SERVED_MODEL,
    SERVICE,
    Kind,
)
from pumas_operator.manifests import Settings
from pumas_operator.objects import Key, Objects, key_of, uid_of
from pumas_operator.reconcile import Reconciler
from pumas_operator.rest import Uses
from support.cluster_objects import model_object
from support.fake_cluster import FakeCluster
from support.kubernetes import RUNNING, condition, container, pod, terminated

TEAM, HOME = "team", "pumas-system"
KEY = Key(TEAM, "tiny")
FILE: dict[str, Any] = {"format": "gguf", "architecture": "llama", "bytes": 1000}
SOURCE: dict[str, Any] = {"huggingFace": {"repo": "team/tiny", "file": "tiny.gguf"}}
#: The names of the model's children.
CHILDREN: dict[Kind, str] = {
    SECRET: "tiny-engine-key",
    SERVICE: "tiny-serving",
    DISRUPTION_BUDGET: "tiny-serving",
    NETWORK_POLICY: "tiny-serving",
    DEPLOYMENT: "tiny-serving",
}


@dataclass
class Told:
    """Supervisors that all say the same."""

    descriptor: PodDescriptor | None = None
    asked: list[str] = field(default_factory=list)

    async def describe(self, address: str) -> PodDescriptor | None:
        self.asked.append(address)
        return self.descriptor


class World:
    """One operator process and its cluster; `restart` is another process."""

    def __init__(self) -> None:
        self.cluster = FakeCluster(changed=self._watch, gone=self._forget)
        self.supervisors = Told()
        self.clock = 1000.0
        """The operator's own clock, in seconds."""
        self.now = datetime(2030, 1, 1, tzinfo=UTC)
        self.restart()

    def restart(self) -> None:
        """A new process, that has listed everything."""
        self.objects = Objects()
        for kind, held in self.cluster.objects.items():
            for body in held.values():
                self.objects.put(kind, body)
        self.describer = Describer(self.supervisors)
        self.reconciler = Reconciler(
            self.cluster,
            self.objects,
            self.describer,
            Settings(image="registry.example/worker:1", namespace=HOME),
            HOME,
            b"a secret",
            Uses(lambda: self.clock),
            lambda: self.now,
        )

    def _watch(self, kind: Kind, body: dict[str, Any]) -> None:
        self.objects.put(kind, body)

    def _forget(self, kind: Kind, body: dict[str, Any]) -> None:
        self.objects.remove(kind, key_of(body), uid_of(body))

    def apply(self, name: str = "tiny", **spec: Any) -> dict[str, Any]:
        """Somebody applies a ServedModel, or another spec of it."""
        spec.setdefault("source", SOURCE)
        held = self.cluster.objects.get(SERVED_MODEL, {}).get((TEAM, name))
        if held is None:
            return self.cluster.put(SERVED_MODEL, model_object(name, uid=f"uid-{name}", **spec))
        metadata = held["metadata"] | {"generation": held["metadata"]["generation"] + 1}
        return self.cluster.put(SERVED_MODEL, {**held, "metadata": metadata, "spec": spec})

    async def reconcile(self, key: Key = KEY) -> float | None:
        """Once."""
        return await self.reconciler.reconcile(key)

    async def settle(self, key: Key = KEY) -> None:
        """Reconcile until nothing is written any more; fails when that never comes."""
        for _ in range(12):
            before = len(self.cluster.writes)
            await self.reconcile(key)
            if len(self.cluster.writes) == before:
                return
        raise AssertionError(f"no end of writing: {self.cluster.writes[-6:]}")

    def delete(self, kind: Kind, name: str) -> None:
        """Somebody deletes an object, and the watch tells."""
        self.cluster.drop(kind, TEAM, name)

    def inspected(self, told: dict[str, Any] | None = None) -> None:
        """The Job's pod ends with a verdict."""
        message = json.dumps(told or {"file": FILE})
        for job in list(self.cluster.objects[JOB].values()):
            name = f"{job['metadata']['name']}-pod"
            if (TEAM, name) in self.cluster.objects.get(POD, {}):
                continue
            body = pod(name, inspect=container("inspect", terminated(0, message)))
            body["metadata"] |= {
                "namespace": TEAM,
                "labels": job["metadata"]["labels"],
                "ownerReferences": [{"kind": "Job", "uid": job["metadata"]["uid"]}],
            }
            self.cluster.put(POD, body)

    def serving(self, *, ready: bool = True, name: str = "tiny-serving-1") -> None:
        """The Deployment's pod runs."""
        deployment = self.cluster.get(DEPLOYMENT, TEAM, "tiny-serving")
        template = deployment["spec"]["template"]["metadata"]
        body = pod(
            name,
            fetch=container("fetch", terminated(0, json.dumps({"file": FILE}))),
            server=container("server", RUNNING),
            conditions=[condition("Ready", "True" if ready else "False")],
            spec_hash=template["annotations"][SPEC_HASH_ANNOTATION],
            podIP="192.0.2.1",
        )
        body["metadata"] |= {"namespace": TEAM, "labels": template["labels"]}
        self.cluster.put(POD, body)

    async def served(self) -> None:
        """A model that is applied, inspected and serves."""
        self.apply()
        await self.settle()
        self.inspected()
        await self.settle()
        self.serving()
        await self.settle()

    def status(self, name: str = "tiny") -> dict[str, Any]:
        """What is written of a model."""
        status: dict[str, Any] = self.cluster.get(SERVED_MODEL, TEAM, name)["status"]
        return status

    def reason(self, kind: str, name: str = "tiny") -> tuple[str, str]:
        """Status and reason of a condition."""
        found = {c["type"]: c for c in self.status(name)["conditions"]}[kind]
        return found["status"], found["reason"]
