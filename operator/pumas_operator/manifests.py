"""The desired children of a ServedModel: plain Kubernetes objects, with no client and no clock.

A cluster applies them as they are; local mode runs the same pod template as processes. What a pod
is told stands in one variable, `PUMAS_WORKER`; addresses, ports and folders occur only in the five
variables that local mode overrides. The spec hash is taken over the finished template, so whatever
would make another pod makes another hash, a new release's layout included.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePosixPath

from pumas_crds.served_model import Engine, ServedModel
from pumas_crds.serving_profile import ServingProfile
from pumas_crds.vocabulary import (
    API_VERSION,
    ENGINE_KEY_FILE,
    ENGINE_PORT,
    ENGINE_PORT_NAME,
    GROUP,
    MODELS_DIR,
    RUN_DIR,
    SUPERVISOR_PORT,
    SUPERVISOR_PORT_NAME,
    TERMINATION_LOG,
    Variable,
)
from pumas_crds.worker_spec import WorkerSpec
from pumas_operator import names

Object = dict[str, object]

SPEC_HASH_ANNOTATION = f"{GROUP}/spec-hash"
KEY_DIR = f"{RUN_DIR}/key"
FETCH = "fetch"
SERVER = "server"

DRAIN_SECONDS = 30
#: What a pod needs beside draining: telling the routers, ending the engine, ending itself.
GRACE_MARGIN_SECONDS = 20
#: How long an engine may take to load before the pod is started anew.
LOAD_SECONDS = 600
#: The image's own user; a numeric one, which is what `runAsNonRoot` can check.
USER = 65532


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator's installation decides for all models."""

    image: str
    """Image of serving pods. Local mode runs this interpreter in its place."""
    propagation_seconds: float = 5
    """How long a stopping pod still answers, so that every router has seen it go. Locally 0."""


def effective(model: ServedModel, profile: ServingProfile, settings: Settings) -> WorkerSpec:
    """What the model's pods are to do: the model's word, else the profile's, else the default."""
    spec = model.spec
    if spec.source is None:
        raise ValueError(f"{model.metadata.name} has no source, so nothing of ours serves it")
    drain = (spec.drain_seconds, profile.spec.drain_seconds, DRAIN_SECONDS)
    own = {} if spec.engine is None else spec.engine.model_dump(exclude_none=True)
    return WorkerSpec(
        alias=model.alias,
        runtime=spec.runtime,
        task=spec.task,
        source=spec.source,
        sha256=spec.sha256,
        engine=Engine.model_validate(profile.spec.engine.model_dump(exclude_none=True) | own),
        drain_seconds=next(seconds for seconds in drain if seconds is not None),
        propagation_seconds=settings.propagation_seconds,
    )


def spec_hash(desired: object) -> str:
    """Tell one desired state from another: a short digest of its canonical JSON."""
    canonical = json.dumps(desired, sort_keys=True, separators=(",", ":"))
    return sha256(canonical.encode()).hexdigest()[:16]


def build_deployment(model: ServedModel, profile: ServingProfile, settings: Settings) -> Object:
    """The Deployment that serves the model."""
    name = model.metadata.name
    worker = effective(model, profile, settings)
    digest = spec_hash(_template(name, worker, settings))
    template = _template(name, worker.model_copy(update={"spec_hash": digest}), settings)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": names.workload(name),
            "namespace": model.metadata.namespace,
            "labels": _labels(name),
            "ownerReferences": [_owner(model)],
        },
        "spec": {
            "replicas": 1,
            # Two pods of one model would need its accelerator twice.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": _selector(name)},
            "template": template,
        },
    }


def _owner(model: ServedModel) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": model.kind,
        "name": model.metadata.name,
        "uid": model.metadata.uid,
        "controller": True,
        # Deleting a model or its namespace must never wait for a child.
        "blockOwnerDeletion": False,
    }


def _selector(name: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "pumas-worker",
        "app.kubernetes.io/instance": names.instance(name),
    }


def _labels(name: str) -> dict[str, str]:
    return _selector(name) | {
        "app.kubernetes.io/component": "serving-pod",
        "app.kubernetes.io/part-of": "pumas-serving",
        "app.kubernetes.io/managed-by": "pumas-operator",
    }


def _template(name: str, worker: WorkerSpec, settings: Settings) -> Object:
    volumes = _volumes(name, worker)
    return {
        "metadata": {
            "labels": _labels(name),
            "annotations": {SPEC_HASH_ANNOTATION: worker.spec_hash},
        },
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": worker.drain_seconds + GRACE_MARGIN_SECONDS,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                # Without it the key, mode 0400, would be root's alone.
                "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "initContainers": [_container(FETCH, "fetch", worker, settings, volumes)],
            "containers": [
                _container(SERVER, "serve", worker, settings, volumes)
                | {
                    "ports": [
                        {"name": ENGINE_PORT_NAME, "containerPort": ENGINE_PORT},
                        {"name": SUPERVISOR_PORT_NAME, "containerPort": SUPERVISOR_PORT},
                    ],
                    "startupProbe": _probe("/readyz", 2, LOAD_SECONDS // 2),
                    "readinessProbe": _probe("/readyz", 2, 2),
                    "livenessProbe": _probe("/healthz", 10, 6),
                }
            ],
            "volumes": [volume.source for volume in volumes],
        },
    }


def _container(
    name: str, verb: str, worker: WorkerSpec, settings: Settings, volumes: tuple[_Volume, ...]
) -> Object:
    return {
        "name": name,
        "image": settings.image,
        "command": ["python", "-m", "pumas_server.worker", verb],
        "env": _environment(worker),
        "terminationMessagePath": f"{RUN_DIR}/{TERMINATION_LOG}",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [volume.mount for volume in volumes],
    }


def _environment(worker: WorkerSpec) -> list[Object]:
    told = worker.model_dump_json(by_alias=True, exclude_none=True)
    values = {
        Variable.ENGINE_PORT: str(ENGINE_PORT),
        Variable.SUPERVISOR_PORT: str(SUPERVISOR_PORT),
        Variable.MODELS: MODELS_DIR,
        Variable.RUN: RUN_DIR,
        # Kubernetes expands `$(NAME)` and `$$` in values, and chat templates may hold either.
        Variable.WORKER: told.replace("$", "\\u0024"),
    }
    address: Object = {"fieldRef": {"fieldPath": "status.podIP"}}
    fixed: list[Object] = [{"name": name.value, "value": values[name]} for name in values]
    return [{"name": Variable.POD_IP.value, "valueFrom": address}, *fixed]


def _probe(path: str, period_seconds: int, failure_threshold: int) -> Object:
    return {
        "httpGet": {"path": path, "port": SUPERVISOR_PORT_NAME},
        "periodSeconds": period_seconds,
        "timeoutSeconds": 5,
        "failureThreshold": failure_threshold,
    }


@dataclass(frozen=True, slots=True)
class _Volume:
    source: Object
    mount: Object


def _volumes(name: str, worker: WorkerSpec) -> tuple[_Volume, ...]:
    key = {
        "secretName": names.engine_key_secret(name),
        "defaultMode": 0o400,
        "items": [{"key": ENGINE_KEY_FILE, "path": ENGINE_KEY_FILE}],
    }
    by_path = {
        RUN_DIR: _volume("run", {"emptyDir": {}}, RUN_DIR),
        MODELS_DIR: _volume("models", {"emptyDir": {}}, MODELS_DIR),
        KEY_DIR: _volume("key", {"secret": key}, KEY_DIR, read_only=True),
    }
    if worker.source.path is not None:
        # The folder and not the file: the parts of a split model lie beside the first. A folder
        # `/models` takes the cache's place, which a file that is served where it lies never uses.
        folder = str(PurePosixPath(worker.source.path).parent)
        at_root = folder == "/"  # which no volume can be mounted over
        place, kind = (worker.source.path, "File") if at_root else (folder, "Directory")
        host: Object = {"hostPath": {"path": place, "type": kind}}
        by_path[place] = _volume("source", host, place, read_only=True)
    return tuple(by_path.values())


def _volume(name: str, source: Object, path: str, *, read_only: bool = False) -> _Volume:
    mount: Object = {"name": name, "mountPath": path}
    return _Volume({"name": name} | source, mount | ({"readOnly": True} if read_only else {}))
