"""The Deployment of a ServedModel: a plain Kubernetes object, with no client and no clock.

A cluster applies it as it is; local mode runs the same pod template as processes. The spec hash
is taken over the finished template, so whatever would make another pod makes another hash, a new
release's layout included, and what only changes the number of pods does not.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import assert_never

from pumas_crds.engine import LLAMA_CPP_SETTINGS, ONNX_RUNTIME_SETTINGS, Engine
from pumas_crds.served_model import ServedModel
from pumas_crds.serving_profile import ServingProfile, ServingProfileSpec
from pumas_crds.vocabulary import MODEL_NAME_ANNOTATION, SPEC_HASH_ANNOTATION, Runtime
from pumas_crds.worker_spec import WorkerSpec
from pumas_operator import names
from pumas_operator.labels import Object, build_labels, build_metadata, select_pods
from pumas_operator.pod_template import build_serving_pod

DRAIN_SECONDS = 30
#: How long fetching a file may take before a rollout is said to make no progress.
FETCH_SECONDS = 7200


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator's installation decides for all models."""

    image: str
    """Image of serving pods. Local mode runs this interpreter in its place."""
    namespace: str = ""
    """Where operator and routers are, the only ones that pods listen to. Unused locally."""
    propagation_seconds: float = 5
    """How long a stopping pod still answers, so that every router has seen it go. Locally 0."""


def effective(model: ServedModel, profile: ServingProfile, settings: Settings) -> WorkerSpec:
    """What the model's pods are to do: the model's word, else the profile's, else the default."""
    spec = model.spec
    if spec.source is None:
        raise ValueError(f"{model.metadata.name} has no source, so nothing of ours serves it")
    drain = (spec.drain_seconds, profile.spec.drain_seconds, DRAIN_SECONDS)
    foreign = LLAMA_CPP_SETTINGS if spec.runtime is Runtime.ONNX_RUNTIME else ONNX_RUNTIME_SETTINGS
    shared = profile.spec.engine.without(foreign).model_dump(exclude_none=True)
    own = {} if spec.engine is None else spec.engine.model_dump(exclude_none=True)
    return WorkerSpec(
        alias=model.alias,
        runtime=spec.runtime,
        task=spec.task,
        source=spec.source,
        projector=spec.projector,
        sha256=spec.sha256,
        engine=Engine.model_validate(shared | own),
        drain_seconds=next(seconds for seconds in drain if seconds is not None),
        propagation_seconds=settings.propagation_seconds,
    )


def spec_hash(desired: object) -> str:
    """Tell one desired state from another: a short digest of its canonical JSON."""
    canonical = json.dumps(desired, sort_keys=True, separators=(",", ":"))
    return sha256(canonical.encode()).hexdigest()[:16]


def select_image(runtime: Runtime, profile: ServingProfileSpec, settings: Settings) -> str:
    """The image of pods of that runtime: the profile's, else the installation's."""
    match runtime:
        case Runtime.LLAMA_CPP:
            return profile.images.llama_cpp or settings.image
        case Runtime.ONNX_RUNTIME:
            return profile.images.onnx_runtime or settings.image
        case Runtime.EXTERNAL:
            return settings.image
        case _:
            assert_never(runtime)


def build_deployment(model: ServedModel, profile: ServingProfile, settings: Settings) -> Object:
    """The Deployment that serves the model."""
    worker = effective(model, profile, settings)
    image = select_image(model.spec.runtime, profile.spec, settings)
    digest = spec_hash(_template(model, worker, profile.spec, image))
    hashed = worker.model_copy(update={"spec_hash": digest})
    replicas = model.spec.desired_replicas
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": build_metadata(names.workload(model.metadata.name), model),
        "spec": {
            "replicas": replicas,
            "strategy": _strategy(replicas, profile.spec),
            "progressDeadlineSeconds": FETCH_SECONDS + model.spec.effective_activation.load_timeout,
            # Nobody rolls back by hand: the spec is what is wanted.
            "revisionHistoryLimit": 1,
            "selector": {"matchLabels": select_pods(model)},
            "template": _template(model, hashed, profile.spec, image),
        },
    }


def _strategy(replicas: int, profile: ServingProfileSpec) -> Object:
    match profile.rollout:
        case "surge":
            return _rolling(surge=1, unavailable=0)
        case "replace" if replicas > 1:
            return _rolling(surge=0, unavailable=1)
        case "replace":
            # Two pods of one model would need its accelerator twice.
            return {"type": "Recreate"}
        case _:
            assert_never(profile.rollout)


def _rolling(surge: int, unavailable: int) -> Object:
    return {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
    }


def _template(
    model: ServedModel, worker: WorkerSpec, profile: ServingProfileSpec, image: str
) -> Object:
    own = {
        MODEL_NAME_ANNOTATION: model.metadata.name,
        SPEC_HASH_ANNOTATION: worker.spec_hash,
    }
    return {
        "metadata": {
            "labels": profile.pod_labels | build_labels(model),
            "annotations": profile.pod_annotations | own,
        },
        "spec": build_serving_pod(
            model.metadata.name,
            worker,
            profile,
            image,
            model.spec.effective_activation.load_timeout,
        ),
    }
