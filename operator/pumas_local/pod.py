"""The part of a pod template that the local kubelet carries out, and how it maps onto a machine.

Pure. In the template, ports, address and folders occur only in five variables; here those five
get this machine's values and everything else stays as it is written. Members that only a cluster
can carry out (image, security context) are not read: the process is this user's anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import Field

from pumas_crds.resource import ObjectMeta, Open
from pumas_crds.vocabulary import (
    ENGINE_PORT_NAME,
    MODELS_DIR,
    RUN_DIR,
    SUPERVISOR_PORT_NAME,
    Variable,
)

LOOPBACK = "127.0.0.1"


class HttpGet(Open):
    """What a probe asks for, of which named port."""

    path: str
    port: str


class Probe(Open):
    """A question to a container, asked again and again. Defaults are Kubernetes' own."""

    http_get: HttpGet
    period_seconds: float = 10
    timeout_seconds: float = 1
    failure_threshold: int = 3


class EnvVar(Open):
    """A variable; without `value` it is one that Kubernetes fills in, here always overridden."""

    name: str
    value: str | None = None


class VolumeMount(Open):
    """Where a container sees a volume."""

    name: str
    mount_path: str


class Container(Open):
    """One program of a pod."""

    name: str
    command: tuple[str, ...]
    env: tuple[EnvVar, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    termination_message_path: str = "/dev/termination-log"
    startup_probe: Probe | None = None
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None


class KeyToPath(Open):
    """Which key of a Secret becomes which file."""

    key: str
    path: str


class SecretVolume(Open):
    """A Secret as files."""

    secret_name: str
    items: tuple[KeyToPath, ...]


class Volume(Open):
    """A volume; of interest here when it is a Secret."""

    name: str
    secret: SecretVolume | None = None


class PodSpec(Open):
    """What runs together."""

    init_containers: tuple[Container, ...] = ()
    containers: Annotated[tuple[Container, ...], Field(min_length=1, max_length=1)]
    """Exactly one, as in our templates: its start chooses the pod's ports."""
    volumes: tuple[Volume, ...] = ()
    termination_grace_period_seconds: float = 30


class TemplateMeta(Open):
    """The metadata of a template, which has no name."""

    annotations: dict[str, str] = Field(default_factory=dict)


class PodTemplate(Open):
    """What every pod of a Deployment is made from."""

    metadata: TemplateMeta = TemplateMeta()
    spec: PodSpec


class DeploymentSpec(Open):
    """How many pods, made from what."""

    replicas: int = 1
    template: PodTemplate


class Deployment(Open):
    """The workload, as `pumas_operator.manifests` builds it."""

    metadata: ObjectMeta
    spec: DeploymentSpec


@dataclass(frozen=True, slots=True)
class Ports:
    """The two ports of a pod on this machine."""

    engine: int
    supervisor: int

    def named(self, name: str) -> int:
        """The port that a probe names."""
        return {ENGINE_PORT_NAME: self.engine, SUPERVISOR_PORT_NAME: self.supervisor}[name]


@dataclass(frozen=True, slots=True)
class Place:
    """Where on this machine a pod's folders are."""

    run: Path
    models: Path

    def resolve(self, path: str) -> Path:
        """The place of a path of the template: below one of the two folders, or as it is."""
        for mounted, here in ((RUN_DIR, self.run), (MODELS_DIR, self.models)):
            if PurePosixPath(path).is_relative_to(mounted):
                return here / PurePosixPath(path).relative_to(mounted)
        return Path(path)


def build_environment(
    container: Container, ports: Ports, place: Place, inherited: Mapping[str, str]
) -> dict[str, str]:
    """The container's environment: what it inherits, what the template says, the five overrides."""
    declared = {variable.name: variable.value or "" for variable in container.env}
    overrides = {
        Variable.POD_IP.value: LOOPBACK,
        Variable.ENGINE_PORT.value: str(ports.engine),
        Variable.SUPERVISOR_PORT.value: str(ports.supervisor),
        Variable.MODELS.value: str(place.models),
        Variable.RUN.value: str(place.run),
    }
    return {**inherited, **declared, **overrides}


def select_inherited(environment: Mapping[str, str], interpreter: Path) -> dict[str, str]:
    """What of our own environment a container gets, with `python` being this interpreter.

    Not our own settings but the choice of an engine, nor what changes how Python runs; what it
    needs to find its libraries is kept, for a container imports the same packages as we do.
    """
    kept = {
        name: value
        for name, value in environment.items()
        if name in ("PYTHONPATH", "PYTHONHOME", Variable.ENGINE)
        or not name.startswith(("PYTHON", "PUMAS_"))
    }
    search = [str(interpreter.parent), *filter(None, [kept.get("PATH")])]
    return {**kept, "PATH": ":".join(search)}


def select_secret_files(
    pod: PodSpec, place: Place, secrets: Mapping[str, Mapping[str, str]]
) -> dict[Path, str]:
    """Which files hold what of the Secrets that the pod mounts."""
    mounts = {
        mount.name: mount.mount_path
        for container in (*pod.init_containers, *pod.containers)
        for mount in container.volume_mounts
    }
    return {
        place.resolve(mounts[volume.name]) / item.path: secrets[volume.secret.secret_name][item.key]
        for volume in pod.volumes
        if volume.secret is not None and volume.name in mounts
        for item in volume.secret.items
    }
