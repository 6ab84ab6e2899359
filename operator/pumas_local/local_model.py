"""One model on this machine: what is wanted of it, its pod, and the task that makes the one so.

What Deployment, ReplicaSet and inspection Job do in a cluster: while a pod is wanted there is one;
while none is, the file is looked at, so that what it is is known before it is loaded.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from pumas_crds.facts import Fault, Inspection
from pumas_crds.served_model import ServedModel
from pumas_crds.serving_profile import ServingProfile
from pumas_crds.vocabulary import ENGINE_KEY_FILE, SPEC_HASH_ANNOTATION, Reason
from pumas_local.kubelet import Kubelet, LocalPod, back_off
from pumas_local.pod import LOOPBACK, Deployment
from pumas_local.task_end import explain_end
from pumas_operator import names
from pumas_operator.inspection_job import build_inspection_job
from pumas_operator.manifests import Settings, build_deployment, spec_hash
from pumas_operator.observation import InspectionObservation, Observed, PodObservation
from pumas_server.router.source import EXTERNAL_UID, Endpoint, ModelRecord

#: No image is pulled here: a container's `python` is this interpreter. No router has to be told
#: that a pod goes, for the only one drains before.
SETTINGS = Settings(image="pumas-serving", propagation_seconds=0)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Workload:
    """What runs for a model: the pod of its Deployment, and the one that inspects its file."""

    serving: Deployment
    inspecting: Deployment


def build_workload(model: ServedModel, profile: ServingProfile) -> Workload:
    """The very templates that a cluster would get."""
    serving = build_deployment(model, profile, SETTINGS)
    job = build_inspection_job(model, profile, SETTINGS)
    return Workload(Deployment.model_validate(serving), Deployment.model_validate(job))


class LocalModel:
    """One ServedModel and all that is true of it here."""

    def __init__(
        self,
        model: ServedModel,
        observed: Observed,
        workload: Workload | None,
        kubelet: Kubelet,
        changed: Callable[[LocalModel], None],
    ) -> None:
        """`changed` is told whenever something was observed."""
        self.model = self.as_read = model
        self._workload = workload
        if workload is None:
            digest = spec_hash(model.spec.model_dump(mode="json", by_alias=True))
        else:
            digest = workload.serving.spec.template.metadata.annotations[SPEC_HASH_ANNOTATION]
        self._decided = observed
        self.observed = replace(observed, spec_hash=digest)
        self._kubelet = kubelet
        self._changed = changed
        self._key = secrets.token_urlsafe(32)
        self.pod: LocalPod | None = None
        self._steered = asyncio.Event()
        self._anew = False
        self._task: asyncio.Task[None] | None = None
        self._first = asyncio.Event()

    @property
    def wanted(self) -> bool:
        """Whether a pod is wanted now."""
        return self.observed.desired_replicas is None and self.model.spec.desired_replicas > 0

    def record(self) -> ModelRecord:
        """As the router sees it."""
        return ModelRecord(self.model, self.observed.spec_hash, tuple(self._endpoints()))

    async def start(self) -> None:
        """Begin to make it so; return when the first process runs, or none is to."""
        if self._workload is not None:
            self._task = asyncio.create_task(self._keep(self._workload))
            self._task.add_done_callback(self._note_end)
            await self._first.wait()

    def is_as(self, other: LocalModel) -> bool:
        """Whether another, made of what was read later, would be and run the same."""
        return (
            self.as_read.spec == other.as_read.spec
            and self._workload == other._workload
            and self._decided == other._decided
        )

    def steer(self, model: ServedModel, *, anew: bool = False) -> None:
        """Another number of replicas is wanted; with `anew`, another attempt."""
        self.model = model
        self._anew = self._anew or anew
        self._steered.set()

    async def stop(self) -> None:
        """End its pod within the grace period; nothing of it is wanted any more."""
        self.observed = replace(self.observed, desired_replicas=0)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        if self.pod is not None:
            await self.pod.stop()
        self.pod = None
        self.observed = replace(self.observed, pods=())

    async def _keep(self, workload: Workload) -> None:
        delays = back_off()
        while True:
            self._steered.clear()
            try:
                await self._make_so(workload)
            except OSError as error:
                self._observe(workload_fault=_no_room(error))
                self._first.set()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._steered.wait(), next(delays))
                continue
            delays = back_off()
            self._observe(workload_fault=None)
            self._first.set()
            if not self._is_behind():
                await self._steered.wait()

    async def _make_so(self, workload: Workload) -> None:
        """One step to what is wanted. Raises `OSError` when the data folder has no room for it."""
        if self.pod is not None and (self._anew or not self.wanted):
            await self._unload(self.pod)
        elif self.wanted:
            self._anew = False
            if self.pod is None:
                await self._load(workload)
        elif self._anew or self.observed.inspection is None:
            self._anew = False
            await self._inspect(workload)

    def _is_behind(self) -> bool:
        return self._anew or (self.pod is None) is self.wanted

    async def _load(self, workload: Workload) -> None:
        secret = {names.engine_key_secret(self.model.metadata.name): {ENGINE_KEY_FILE: self._key}}

        def report(observation: PodObservation) -> None:
            self._observe(pods=(observation,))

        self.pod = self._kubelet.create(workload.serving, secret, report)
        report(self.pod.observation)
        await self.pod.start()

    async def _unload(self, pod: LocalPod) -> None:
        told = pod.observation.inspection
        await pod.stop()
        self.pod = None
        self._observe(pods=(), inspection=InspectionObservation(told) if told else None)

    async def _inspect(self, workload: Workload) -> None:
        """Look at the file, unless something else is wanted before that is done."""
        self._observe(inspection=None)
        told: list[Inspection] = []

        def report(observation: PodObservation) -> None:
            if observation.inspection is not None:
                told.append(observation.inspection)

        pod = self._kubelet.create(workload.inspecting, {}, report, serves=False)
        await pod.start()
        self._first.set()
        steered = asyncio.create_task(self._steered.wait())
        ended = asyncio.create_task(pod.ended())
        try:
            await asyncio.wait({steered, ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            steered.cancel()
            ended.cancel()
            await pod.stop()
        if told:
            self._observe(inspection=InspectionObservation(told[-1]))

    def _note_end(self, task: asyncio.Task[None]) -> None:
        if (fault := explain_end(task, "model")) is not None:
            self._observe(workload_fault=fault)
        self._first.set()

    def _observe(self, **changes: object) -> None:
        self.observed = replace(self.observed, **changes)  # type: ignore[arg-type]
        self._changed(self)

    def _endpoints(self) -> Iterable[Endpoint]:
        spec = self.model.spec
        if spec.endpoint is not None and self.observed.refused is None and not spec.suspend:
            url = spec.endpoint.root()
            yield Endpoint(uid=EXTERNAL_UID, url=url, supervisor_url=None, ready=True)
        if self.pod is not None and self.pod.ports and not self.pod.observation.terminating:
            yield Endpoint(
                uid=self.pod.observation.uid,
                url=f"http://{LOOPBACK}:{self.pod.ports.engine}",
                supervisor_url=f"http://{LOOPBACK}:{self.pod.ports.supervisor}",
                ready=self.pod.observation.ready,
                api_key=self._key,
            )


def _no_room(error: OSError) -> Fault:
    """Why a pod cannot be made: what has to be mended is on this machine, and is not named."""
    logger.warning("the data folder cannot be used: %s", error)
    sentence = f"The data folder of pumas serve cannot be used: {error.strerror}."
    return Fault(reason=Reason.ENGINE_FAILED, message=sentence)
