"""ServedModel: one model under one alias and profile, as a team writes it and is told about it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator
from pydantic.alias_generators import to_camel

from pumas_crds.activation import Activation
from pumas_crds.addressed import Addressed, url_rule
from pumas_crds.engine import LLAMA_CPP_SETTINGS, ONNX_RUNTIME_SETTINGS, Engine
from pumas_crds.facts import Fault, FileFacts, RuntimeStatus
from pumas_crds.recorded_task import RecordedTask
from pumas_crds.resource import Closed, Condition, ObjectMeta, Open, Rule, closed
from pumas_crds.source import Source
from pumas_crds.vocabulary import (
    ALIAS_PATTERN,
    API_VERSION,
    DEFAULT_PROFILE,
    PROFILE_PATTERN,
    LoadState,
    Runtime,
)

Name = Annotated[str, Field(max_length=256)]


class Catalogue(Closed):
    """How the model is presented in lists. Nothing here changes what is served."""

    display_name: Name | None = None
    """A title for people."""
    aliases: Annotated[tuple[Name, ...], Field(max_length=16)] = ()
    """Other names the model is known by. Informative: requests cannot use them."""
    family: Name | None = None
    """The family of models that it belongs to."""
    model_id: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """The library identifier; by default the source tells it."""


class ExternalEndpoint(Addressed):
    """An OpenAI-compatible server that already runs."""

    URL_RULE = url_rule("endpoint.url")
    model_config = closed(URL_RULE)

    url: Annotated[str, Field(max_length=512, pattern=r"^https?://[^\s?#@]+$")]
    """The server's root; `/v1/…` is appended. A trailing `/` or `/v1` is removed."""
    model: Name | None = None
    """The name that this server knows the model by; by default the alias."""

    def root(self) -> str:
        """The URL that `/v1/…` is appended to."""
        parts = urlsplit(self.url)
        path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
        return f"{parts.scheme}://{parts.netloc}{path}"


_SOURCE_RULE: Rule = (
    "self.runtime == 'external' ? !has(self.source) : has(self.source)",
    "source is required, except with runtime external, which has none",
)
_ENDPOINT_RULE: Rule = (
    "self.runtime == 'external' ? has(self.endpoint) : !has(self.endpoint)",
    "endpoint is required with runtime external, and only there",
)
_PROJECTOR_RULE: Rule = (
    "!has(self.projector) || self.runtime == 'llama.cpp'",
    "projector belongs to runtime llama.cpp",
)


def _none_of(settings: Iterable[str]) -> str:
    return " && ".join(f"!has(self.engine.{to_camel(name)})" for name in settings)


_SETTINGS_RULE: Rule = (
    "!has(self.engine) || (self.runtime == 'onnxruntime'"
    f" ? {_none_of(LLAMA_CPP_SETTINGS)} : {_none_of(ONNX_RUNTIME_SETTINGS)})",
    "engine takes, beside parallel, with runtime onnxruntime device, steps and guidancePercent,"
    " with llama.cpp all the others",
)
_OURS_RULE: Rule = (
    "self.runtime != 'external' || (!has(self.sha256) && !has(self.engine)"
    " && !has(self.activation) && !has(self.drainSeconds)"
    " && (!has(self.replicas) || self.replicas == 1))",
    "sha256, engine, replicas, activation and drainSeconds act on engines of ours:"
    " not with runtime external",
)


@cache
def _no_activation() -> Activation:
    """Of a model that says nothing of it. One for all: it is asked for at every call."""
    return Activation()


class ServedModelSpec(Closed):
    """What is to be served, and as what."""

    model_config = closed(_SOURCE_RULE, _ENDPOINT_RULE, _PROJECTOR_RULE, _SETTINGS_RULE, _OURS_RULE)

    alias: Annotated[str, Field(min_length=1, max_length=192, pattern=ALIAS_PATTERN)] | None = None
    """The name that requests use as `model`. Default: metadata.name. Immutable."""
    profile: Annotated[str, Field(min_length=1, max_length=63, pattern=PROFILE_PATTERN)] = (
        DEFAULT_PROFILE
    )
    """The ServingProfile, and the contract's `profile`. Immutable."""
    catalogue: Catalogue = Catalogue()
    """How the model is presented in lists."""
    runtime: Runtime = Runtime.LLAMA_CPP
    """What answers for the model."""
    endpoint: ExternalEndpoint | None = None
    """The server, with runtime external."""
    task: RecordedTask | None = None
    """The recorded task, in the hub's words. Default: what file and engine show."""
    source: Source | None = None
    """Where the weights are."""
    projector: Source | None = None
    """Where the projector (mmproj) is that lets the model see or hear, with runtime llama.cpp."""
    sha256: Annotated[str, Field(max_length=64, pattern=r"^[0-9a-f]{64}$")] | None = None
    """Digest of the weights file, checked before anything is loaded."""
    engine: Engine | None = None
    """Settings of the engine."""
    replicas: Annotated[int, Field(ge=0, le=1000)] = 1
    """Serving pods. 0 unloads the model. The scale subresource writes it."""
    activation: Activation | None = None
    """When the model is loaded and unloaded. Default: when `replicas` says so."""
    drain_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = None
    """How long running calls may finish when a pod stops. Default: 30."""
    suspend: bool = False
    """Stop serving without deleting: no pods, and every call is refused."""

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        external = self.runtime is Runtime.EXTERNAL
        if external is (self.source is not None):
            raise ValueError(_SOURCE_RULE[1])
        if external is not (self.endpoint is not None):
            raise ValueError(_ENDPOINT_RULE[1])
        if self.projector is not None and self.runtime is not Runtime.LLAMA_CPP:
            raise ValueError(_PROJECTOR_RULE[1])
        onnx = self.runtime is Runtime.ONNX_RUNTIME
        foreign = LLAMA_CPP_SETTINGS if onnx else ONNX_RUNTIME_SETTINGS
        if self.engine is not None and self.engine.gives(foreign):
            raise ValueError(_SETTINGS_RULE[1])
        ours = (self.sha256, self.engine, self.activation, self.drain_seconds)
        if external and (self.replicas != 1 or any(value is not None for value in ours)):
            raise ValueError(_OURS_RULE[1])
        return self

    @property
    def effective_activation(self) -> Activation:
        """What holds where nothing is written too."""
        return self.activation or _no_activation()

    @property
    def desired_replicas(self) -> int:
        """Serving pods that are wanted now."""
        return 0 if self.suspend else self.replicas


class ServedModelStatus(Open):
    """What is true of the model now. Written by the operator alone."""

    observed_generation: Annotated[int, Field(ge=0)] = 0
    """The generation that this status speaks of."""
    load_state: LoadState = LoadState.UNLOADED
    """Where the model is on its way to serving."""
    replicas: Annotated[int, Field(ge=0)] = 0
    """Serving pods that exist."""
    servable_replicas: Annotated[int, Field(ge=0)] = 0
    """Serving pods that answer now."""
    last_replicas: Annotated[int, Field(ge=0)] = 0
    """Serving pods that were wanted when any last were; what a load goes back to."""
    selector: Annotated[str, Field(max_length=256)] = ""
    """The pods' labels, as the scale subresource tells them to an autoscaler."""
    model: Annotated[str, Field(max_length=192)] = ""
    """The effective alias."""
    profile: Annotated[str, Field(max_length=63)] = ""
    """The effective profile."""
    catalogue_id: Annotated[str, Field(max_length=256)] = ""
    """The id in the model catalogue: the alias, with `@profile` when that is not the default."""
    spec_hash: Annotated[str, Field(max_length=64)] = ""
    """Which pod template is wanted; a pod of this generation carries the same."""
    inspection_hash: Annotated[str, Field(max_length=64)] = ""
    """Which source, digest and task `file` and a refusal of the file speak of."""
    runtime: RuntimeStatus | None = None
    """What the running engine says of itself; kept at zero, for the spec hash that it ran."""
    file: FileFacts | None = None
    """What the weights file is."""
    error: Fault | None = None
    """Why the model cannot serve; at rest, why it could not when it was last loaded."""
    # None and not empty: what is not there can be written under an older definition too.
    load_request: Annotated[str, Field(max_length=64)] | None = None
    """The last explicit load request that was heeded."""
    conditions: Annotated[
        tuple[Condition, ...],
        Field(
            max_length=8,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        ),
    ] = ()
    """Observations, each with a reason."""


_NAME_RULE: Rule = (
    "has(self.spec.alias) || size(self.metadata.name) <= 192",
    "metadata.name is longer than 192 characters, too long for an alias: set spec.alias",
)


class ServedModel(Closed):
    """One model, served under one alias and profile."""

    model_config = closed(_NAME_RULE)

    api_version: Literal["serving.pumas.dev/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["ServedModel"] = "ServedModel"
    metadata: ObjectMeta
    spec: ServedModelSpec
    status: ServedModelStatus = ServedModelStatus()

    @model_validator(mode="after")
    def _alias_fits(self) -> Self:
        if len(self.alias) > 192:
            raise ValueError(_NAME_RULE[1])
        return self

    @property
    def alias(self) -> str:
        """The effective alias: what requests name as `model`."""
        return self.spec.alias or self.metadata.name

    @property
    def profile(self) -> str:
        """The effective profile."""
        return self.spec.profile

    @property
    def catalogue_id(self) -> str:
        """The id in the model catalogue."""
        plain = self.profile == DEFAULT_PROFILE
        return self.alias if plain else f"{self.alias}@{self.profile}"
