"""The containers and volumes of our pods: serving pods, and the pod that inspects a source.

What a pod is told stands in one variable, `PUMAS_WORKER`; addresses, ports and folders occur only
in the five variables that local mode overrides. Everything obeys the `restricted` pod security
standard, but for a `path` source, which is a folder of the node.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pumas_crds.pod_settings import CaBundle, Cache
from pumas_crds.resource import Closed
from pumas_crds.serving_profile import ServingProfileSpec
from pumas_crds.source import Source
from pumas_crds.vocabulary import (
    ENGINE_KEY_FILE,
    ENGINE_PORT,
    ENGINE_PORT_NAME,
    MODELS_DIR,
    PROJECTOR_DIR,
    RUN_DIR,
    SOURCE_DIR,
    SUPERVISOR_PORT,
    SUPERVISOR_PORT_NAME,
    TERMINATION_LOG,
    Runtime,
    Variable,
)
from pumas_crds.worker_spec import WorkerSpec
from pumas_operator import names
from pumas_operator.host_folder import ROOT, host_folder
from pumas_operator.labels import Object

KEY_DIR = f"{RUN_DIR}/key"
CA_DIR = "/etc/pumas/ca"
CA_FILE = "ca.crt"
CA_VARIABLE = "SSL_CERT_FILE"
SHM_DIR = "/dev/shm"
FETCH = "fetch"
SERVER = "server"
INSPECT = "inspect"

#: What a pod needs beside draining: telling the routers, ending the engine, ending itself.
GRACE_MARGIN_SECONDS = 20
#: The image's own user; a numeric one, which is what `runAsNonRoot` can check.
USER = 65532
#: What fetching needs of a serving container's resources; an accelerator it does not.
PLAIN_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
INSPECTION_RESOURCES: Object = {
    "requests": {"cpu": "100m", "memory": "128Mi"},
    "limits": {"cpu": "1", "memory": "512Mi"},
}


@dataclass(frozen=True, slots=True)
class _Volume:
    source: Object
    mount: Object


def build_serving_pod(
    model: str,
    worker: WorkerSpec,
    profile: ServingProfileSpec,
    image: str,
    load_timeout_seconds: int,
) -> Object:
    """The spec of a serving pod: an init container that fetches, one container that serves."""
    shared = [
        *_places(worker, profile.cache),
        _volume("run", {"emptyDir": {}}, RUN_DIR),
    ]
    key = _key(model)
    authorities = _authorities(profile.ca_bundle)
    memory = _shared_memory(profile.shm_size)
    fetch = _container(FETCH, image, worker, profile, [*shared, *authorities])
    server = _container(SERVER, image, worker, profile, [*shared, key, *memory])
    resources = profile.resources
    plain = {
        kind: {name: amount for name, amount in amounts.items() if name in PLAIN_RESOURCES}
        for kind, amounts in (("requests", resources.requests), ("limits", resources.limits))
    }
    return {
        **_pod(profile, [*shared, key, *authorities, *memory], node_of_accelerator=True),
        "terminationGracePeriodSeconds": worker.drain_seconds + GRACE_MARGIN_SECONDS,
        "initContainers": [fetch | _resources(plain)],
        "containers": [
            server
            | _resources({"requests": resources.requests, "limits": resources.limits})
            | {
                "ports": [
                    {"name": ENGINE_PORT_NAME, "containerPort": ENGINE_PORT},
                    {"name": SUPERVISOR_PORT_NAME, "containerPort": SUPERVISOR_PORT},
                ],
                "startupProbe": _probe("/readyz", 2, load_timeout_seconds // 2),
                "readinessProbe": _probe("/readyz", 2, 2),
                "livenessProbe": _probe("/healthz", 10, 6),
            }
        ],
    }


def build_inspecting_pod(worker: WorkerSpec, profile: ServingProfileSpec, image: str) -> Object:
    """The spec of a pod that inspects a source: small, on any node unless the file is on one."""
    volumes = [
        *_places(worker, None),
        _volume("run", {"emptyDir": {}}, RUN_DIR),
        *_authorities(profile.ca_bundle),
    ]
    on_a_node = any(source.path is not None for source in _sources(worker))
    return {
        **_pod(profile, volumes, node_of_accelerator=on_a_node),
        "restartPolicy": "Never",
        "containers": [
            _container(INSPECT, image, worker, profile, volumes)
            | {"resources": INSPECTION_RESOURCES}
        ],
    }


def _pod(
    profile: ServingProfileSpec, volumes: Iterable[_Volume], *, node_of_accelerator: bool
) -> Object:
    placed: Object = {
        "nodeSelector": profile.node_selector,
        "tolerations": [_written(toleration) for toleration in profile.tolerations],
        "affinity": profile.affinity,
        "runtimeClassName": profile.runtime_class_name,
    }
    chosen: Object = {
        **(placed if node_of_accelerator else {}),
        "priorityClassName": profile.priority_class_name,
        "serviceAccountName": profile.service_account_name,
        "imagePullSecrets": [_written(secret) for secret in profile.image_pull_secrets],
    }
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        **{field: value for field, value in chosen.items() if value},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            # Without it the key, mode 0400, would be root's alone.
            "fsGroup": profile.fs_group or USER,
            # A volume of many files is not walked through at every start.
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": [volume.source for volume in volumes],
    }


def _container(
    verb: str,
    image: str,
    worker: WorkerSpec,
    profile: ServingProfileSpec,
    volumes: Iterable[_Volume],
) -> Object:
    return {
        "name": verb,
        "image": image,
        "command": ["python", "-m", "pumas_server.worker", "serve" if verb == SERVER else verb],
        "env": _environment(worker, profile),
        "terminationMessagePath": f"{RUN_DIR}/{TERMINATION_LOG}",
        # A program that ends without a word of its own is explained by its last lines.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [volume.mount for volume in volumes],
    }


def _environment(worker: WorkerSpec, profile: ServingProfileSpec) -> list[Object]:
    told = worker.model_dump_json(by_alias=True, exclude_none=True)
    values = {
        Variable.ENGINE_PORT.value: str(ENGINE_PORT),
        Variable.SUPERVISOR_PORT.value: str(SUPERVISOR_PORT),
        Variable.MODELS.value: MODELS_DIR,
        Variable.RUN.value: RUN_DIR,
        # Kubernetes expands `$(NAME)` and `$$` in values, and chat templates may hold either.
        Variable.WORKER.value: told.replace("$", "\\u0024"),
    }
    if profile.ca_bundle is not None:
        values[CA_VARIABLE] = f"{CA_DIR}/{CA_FILE}"
    values |= {variable.name: variable.value for variable in profile.env}
    address: Object = {"fieldRef": {"fieldPath": "status.podIP"}}
    fixed: list[Object] = [{"name": name, "value": value} for name, value in values.items()]
    return [{"name": Variable.POD_IP.value, "valueFrom": address}, *fixed]


def _resources(amounts: dict[str, dict[str, str]]) -> Object:
    said = {kind: dict(of_kind) for kind, of_kind in amounts.items() if of_kind}
    return {"resources": said} if said else {}


def _probe(path: str, period_seconds: int, failure_threshold: int) -> Object:
    return {
        "httpGet": {"path": path, "port": SUPERVISOR_PORT_NAME},
        "periodSeconds": period_seconds,
        "timeoutSeconds": 5,
        "failureThreshold": failure_threshold,
    }


def _sources(worker: WorkerSpec) -> list[Source]:
    return [worker.source, *([worker.projector] if worker.projector is not None else [])]


def _places(worker: WorkerSpec, cache: Cache | None) -> Iterable[_Volume]:
    """Where the files are: the cache for what is fetched, else the volumes that hold them."""
    found: dict[str, _Volume] = {}
    for source, name, folder in zip(
        _sources(worker), ("source", "projector"), (SOURCE_DIR, PROJECTOR_DIR), strict=False
    ):
        volume = _place_of(source, name, folder, cache, worker.runtime)
        # One volume serves both files that lie on it.
        found.setdefault(str({**volume.source, "name": ""}), volume)
    return found.values()


def _place_of(
    source: Source, name: str, folder: str, cache: Cache | None, runtime: Runtime
) -> _Volume:
    if source.path is not None:
        whole = host_folder(source.path, runtime)
        # No volume can be mounted over the root.
        place, kind = (source.path, "File") if whole == ROOT else (whole, "Directory")
        host: Object = {"hostPath": {"path": place, "type": kind}}
        return _volume(name, host, place, read_only=True)
    if source.persistent_volume_claim is not None:
        claim = _claim(source.persistent_volume_claim.claim_name, read_only=True)
        return _volume(name, claim, folder, read_only=True)
    if cache is not None and cache.persistent_volume_claim is not None:
        claim = _claim(cache.persistent_volume_claim.claim_name, read_only=False)
        return _volume("models", claim, MODELS_DIR)
    limit = {} if cache is None or cache.empty_dir is None else _written(cache.empty_dir)
    return _volume("models", {"emptyDir": limit}, MODELS_DIR)


def _claim(name: str, *, read_only: bool) -> Object:
    claim: Object = {"claimName": name}
    return {"persistentVolumeClaim": claim | ({"readOnly": True} if read_only else {})}


def _key(model: str) -> _Volume:
    secret: Object = {
        "secretName": names.engine_key_secret(model),
        "defaultMode": 0o400,
        "items": [{"key": ENGINE_KEY_FILE, "path": ENGINE_KEY_FILE}],
    }
    return _volume("key", {"secret": secret}, KEY_DIR, read_only=True)


def _authorities(bundle: CaBundle | None) -> list[_Volume]:
    if bundle is None:
        return []
    items = [{"key": bundle.key, "path": CA_FILE}]
    return [
        _volume("ca", {"configMap": {"name": bundle.name, "items": items}}, CA_DIR, read_only=True)
    ]


def _shared_memory(size: str | None) -> list[_Volume]:
    if size is None:
        return []
    return [_volume("shm", {"emptyDir": {"medium": "Memory", "sizeLimit": size}}, SHM_DIR)]


def _written(part: Closed) -> Object:
    """A part of a profile as Kubernetes writes it, which is how it was written."""
    written: Object = part.model_dump(mode="json", by_alias=True, exclude_none=True)
    return written


def _volume(name: str, source: Object, path: str, *, read_only: bool = False) -> _Volume:
    mount: Object = {"name": name, "mountPath": path}
    return _Volume({"name": name} | source, mount | ({"readOnly": True} if read_only else {}))
