"""ServingProfile: what an administrator decides for all models that name it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from pumas_crds.engine import IMAGE_SETTINGS, Engine
from pumas_crds.pod_settings import (
    Annotations,
    CaBundle,
    Cache,
    EnvVariable,
    Labels,
    ObjectName,
    Preserved,
    PullSecret,
    Quantity,
    Resources,
    Toleration,
)
from pumas_crds.resource import Closed, ObjectMeta, Rule, closed
from pumas_crds.source import HUB_HOST
from pumas_crds.vocabulary import API_VERSION, DEFAULT_PROFILE

HostName = Annotated[str, Field(min_length=1, max_length=253)]
HostPath = Annotated[str, Field(max_length=1024, pattern=r"^/([^/\x00-\x1f\x7f]+/?)*$")]
Image = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\s\x00-\x1f\x7f]+$")]

#: An item of an allow-list of hosts that stands for any host.
ANY_HOST = "*"


class Images(Closed):
    """The image of serving pods, by runtime."""

    llama_cpp: Image | None = Field(default=None, alias="llama.cpp")
    """For llama.cpp. Default: the one that the operator was installed with."""
    onnx_runtime: Image | None = Field(default=None, alias="onnxruntime")
    """For onnxruntime. Default: the one that the operator was installed with."""


_RESERVED_RULE: Rule = (
    " && ".join(
        f"(!has(self.{field}) || self.{field}.all(key, !key.startsWith('app.kubernetes.io/')"
        " && !key.startsWith('serving.pumas.dev/')))"
        for field in ("podLabels", "podAnnotations")
    ),
    "podLabels and podAnnotations may not set app.kubernetes.io/* and serving.pumas.dev/*,"
    " which tell our pods apart",
)
_RESERVED = ("app.kubernetes.io/", "serving.pumas.dev/")


_IMAGE_SETTINGS_RULE: Rule = (
    "!has(self.engine) || (!has(self.engine.steps) && !has(self.engine.guidancePercent))",
    "engine.steps and engine.guidancePercent are settings of a model, not of a profile",
)


class ServingProfileSpec(Closed):
    """Everything is optional; what is unset keeps the built-in default."""

    model_config = closed(_RESERVED_RULE, _IMAGE_SETTINGS_RULE)

    images: Images = Images()
    """The image of serving pods, by runtime."""
    resources: Resources = Resources()
    """What a serving container asks for, such as `limits: {nvidia.com/gpu: 1}`.

    Fetching gets the part of it that is cpu, memory and ephemeral-storage.
    """
    runtime_class_name: ObjectName | None = None
    """The RuntimeClass of serving pods."""
    node_selector: Labels = Field(default_factory=dict)
    """Labels that a node must have."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32)] = ()
    """Taints that pods put up with."""
    affinity: Preserved = Field(default_factory=dict)
    """Which nodes and neighbours pods prefer, in Kubernetes' own form."""
    priority_class_name: ObjectName | None = None
    """The PriorityClass of pods."""
    service_account_name: ObjectName | None = None
    """The ServiceAccount of pods, in the model's namespace. Its token is never mounted."""
    image_pull_secrets: Annotated[tuple[PullSecret, ...], Field(max_length=8)] = ()
    """Secrets with registry credentials, in the model's namespace."""
    env: Annotated[
        tuple[EnvVariable, ...],
        Field(
            max_length=64,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        ),
    ] = ()
    """Variables of every container. `HF_ENDPOINT` names another hub than huggingface.co."""
    ca_bundle: CaBundle | None = None
    """Certificate authorities that fetching trusts, in place of the image's own."""
    pod_labels: Labels = Field(default_factory=dict)
    """Further labels of pods."""
    pod_annotations: Annotations = Field(default_factory=dict)
    """Further annotations of pods."""
    fs_group: Annotated[int, Field(ge=1, le=2_147_483_647)] | None = None
    """The group that pods' volumes belong to. Default: the image's own."""
    shm_size: Quantity | None = None
    """Shared memory (/dev/shm) of a serving pod. Default: the container runtime's, 64 MiB."""
    rollout: Literal["replace", "surge"] = "replace"
    """`replace`: an old pod ends before its successor starts, so no accelerator is needed twice.

    `surge`: a successor is ready before an old pod ends.
    """
    cache: Cache | None = None
    """Where fetched files are kept. Default: on the node, as long as the pod lives."""
    engine: Engine = Engine()
    """Engine settings for models that do not set them."""
    drain_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = None
    """Default of `drainSeconds` for models that do not set it."""
    allowed_source_hosts: Annotated[tuple[HostName, ...], Field(max_length=64)] = (HUB_HOST,)
    """Hosts that files may be fetched from; `*` is any host. Redirects are theirs to make."""
    allowed_endpoint_hosts: Annotated[tuple[HostName, ...], Field(max_length=64)] = ()
    """Hosts that `runtime: external` may name, beside this machine in local mode; `*` is any host.

    Empty: in local mode every host, in a cluster none.
    """
    allowed_host_paths: Annotated[tuple[HostPath, ...], Field(max_length=64)] = ()
    """Folders of nodes below which `source.path` may lie. Empty: none. Local mode asks nobody."""

    @model_validator(mode="after")
    def _keys_are_free(self) -> Self:
        if any(key.startswith(_RESERVED) for key in (*self.pod_labels, *self.pod_annotations)):
            raise ValueError(_RESERVED_RULE[1])
        return self

    @model_validator(mode="after")
    def _no_image_settings(self) -> Self:
        if self.engine.gives(IMAGE_SETTINGS):
            raise ValueError(_IMAGE_SETTINGS_RULE[1])
        return self

    @field_validator("env")
    @classmethod
    def _each_once(cls, env: tuple[EnvVariable, ...]) -> tuple[EnvVariable, ...]:
        if len({variable.name for variable in env}) != len(env):
            raise ValueError("env names a variable twice")
        return env


class ServingProfile(Closed):
    """How models of this profile are run."""

    api_version: Literal["serving.pumas.dev/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["ServingProfile"] = "ServingProfile"
    metadata: ObjectMeta
    spec: ServingProfileSpec = ServingProfileSpec()


#: What a missing profile of that name means.
BUILT_IN_DEFAULT = ServingProfile(metadata=ObjectMeta(name=DEFAULT_PROFILE))
