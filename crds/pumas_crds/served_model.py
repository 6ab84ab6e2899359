"""ServedModel: one model under one alias and profile, as a team writes it and is told about it."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, field_validator, model_validator
from pydantic.alias_generators import to_camel

from pumas_crds.facts import Fault, FileFacts
from pumas_crds.resource import Closed, Condition, ObjectMeta, Open
from pumas_crds.vocabulary import (
    ALIAS_PATTERN,
    API_VERSION,
    DEFAULT_PROFILE,
    PROFILE_PATTERN,
    LoadState,
    Runtime,
    Task,
)

Name = Annotated[str, Field(max_length=256)]
CacheType = Literal["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]


def _rules(*rules: tuple[str, str]) -> ConfigDict:
    """CEL twins of a type's validators, for the API server; `(rule, message)` each."""
    return ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        defer_build=True,
        json_schema_extra={
            "x-kubernetes-validations": [{"rule": r, "message": m} for r, m in rules]
        },
    )


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


_ONE_SOURCE_RULE = ("has(self.path)", "source needs exactly one of: path")
_PATH_RULE = (
    r"!has(self.path) || !self.path.matches('[\\x00-\\x1f\\x7f]')",
    "a path holds no control characters",
)


class Source(Closed):
    """Where the weights are. Exactly one member."""

    model_config = _rules(_ONE_SOURCE_RULE, _PATH_RULE)

    path: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """A file on the machine that serves. Relative: to the manifest's folder (local mode)."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if self.path is None:
            raise ValueError(_ONE_SOURCE_RULE[1])
        return self

    @field_validator("path")
    @classmethod
    def _no_control_characters(cls, path: str | None) -> str | None:
        if path is not None and re.search(r"[\x00-\x1f\x7f]", path):
            raise ValueError(_PATH_RULE[1])
        return path

    def file_name(self) -> str:
        """The last component, which is what may be said of a source outside this machine."""
        return PurePosixPath(self.path or "").name


_URL_RULE = (
    "isURL(self.url) && url(self.url).getHostname() != '' && (url(self.url).getPort() == ''"
    " || int(url(self.url).getPort()) <= 65535)",
    "endpoint.url needs a host, and a port of at most 65535 if it has one",
)


class ExternalEndpoint(Closed):
    """An OpenAI-compatible server that already runs."""

    model_config = _rules(_URL_RULE)

    url: Annotated[str, Field(max_length=512, pattern=r"^https?://[^\s?#@]+$")]
    """The server's root; `/v1/…` is appended. A trailing `/` or `/v1` is removed."""
    model: Name | None = None
    """The name that this server knows the model by; by default the alias."""

    @field_validator("url")
    @classmethod
    def _host_and_port(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            addressed = bool(parts.hostname) and (parts.port is None or parts.port >= 0)
        except ValueError as error:
            raise ValueError(_URL_RULE[1]) from error
        if not addressed:
            raise ValueError(_URL_RULE[1])
        return url

    def root(self) -> str:
        """The URL that `/v1/…` is appended to."""
        parts = urlsplit(self.url)
        path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
        return f"{parts.scheme}://{parts.netloc}{path}"

    def host(self) -> str:
        """The host that a profile's allow-list speaks of."""
        return urlsplit(self.url).hostname or ""


class Engine(Closed):
    """Settings of the engine. Everything unset is chosen by the profile, then by the file."""

    context_tokens: Annotated[int, Field(ge=64, le=16_777_216)] | None = None
    """Context of one slot. Default: the smaller of the training context and 8192."""
    parallel: Annotated[int, Field(ge=1, le=256)] | None = None
    """Slots, each with the whole context. Default: 4 for generation, otherwise 1."""
    gpu_layers: Annotated[int, Field(ge=0, le=100_000)] | None = None
    """Layers to keep on the GPU. Default: as many as fit."""
    flash_attention: Literal["auto", "on", "off"] | None = None
    """Whether to use flash attention. Default: auto."""
    cache_type_k: CacheType | None = None
    """Type of the cached keys. Default: f16."""
    cache_type_v: CacheType | None = None
    """Type of the cached values. Default: f16."""
    chat_template: Annotated[str, Field(min_length=1, max_length=65_536)] | None = None
    """A chat template (Jinja) in place of the file's own."""


_SOURCE_RULE = (
    "self.runtime == 'external' ? !has(self.source) : has(self.source)",
    "source is required, except with runtime external, which has none",
)
_ENDPOINT_RULE = (
    "self.runtime == 'external' ? has(self.endpoint) : !has(self.endpoint)",
    "endpoint is required with runtime external, and only there",
)
_OURS_RULE = (
    "self.runtime != 'external' || (!has(self.sha256) && !has(self.engine)"
    " && !has(self.drainSeconds))",
    "sha256, engine and drainSeconds act on engines of ours: not with runtime external",
)


class ServedModelSpec(Closed):
    """What is to be served, and as what."""

    model_config = _rules(_SOURCE_RULE, _ENDPOINT_RULE, _OURS_RULE)

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
    task: Task | None = None
    """The recorded task, in the hub's words. Default: what file and engine show."""
    source: Source | None = None
    """Where the weights are."""
    sha256: Annotated[str, Field(max_length=64, pattern=r"^[0-9a-f]{64}$")] | None = None
    """Digest of the weights file, checked before anything is loaded."""
    engine: Engine | None = None
    """Settings of the engine."""
    drain_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = None
    """How long running calls may finish when a pod stops. Default: 30."""

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        external = self.runtime is Runtime.EXTERNAL
        if external is (self.source is not None):
            raise ValueError(_SOURCE_RULE[1])
        if external is not (self.endpoint is not None):
            raise ValueError(_ENDPOINT_RULE[1])
        ours = (self.sha256, self.engine, self.drain_seconds)
        if external and any(value is not None for value in ours):
            raise ValueError(_OURS_RULE[1])
        return self


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
    model: Annotated[str, Field(max_length=192)] = ""
    """The effective alias."""
    profile: Annotated[str, Field(max_length=63)] = ""
    """The effective profile."""
    file: FileFacts | None = None
    """What the weights file is."""
    error: Fault | None = None
    """Why the model cannot serve."""
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


_NAME_RULE = (
    "has(self.spec.alias) || size(self.metadata.name) <= 192",
    "metadata.name is longer than 192 characters, too long for an alias: set spec.alias",
)


class ServedModel(Closed):
    """One model, served under one alias and profile."""

    model_config = _rules(_NAME_RULE)

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
