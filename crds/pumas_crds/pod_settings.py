"""What a ServingProfile says of pods, in Kubernetes' own words and shapes.

Small typed parts instead of a whole PodSpec: what an administrator may decide and no more. What
they hold is passed on as it is written; the API server judges it with the pods.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, JsonValue, WithJsonSchema, model_validator

from pumas_crds.resource import Closed, Rule, closed
from pumas_crds.source import OBJECT_NAME
from pumas_crds.vocabulary import Variable

QUANTITY_PATTERN = r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,3})?$"


def _as_text(value: object) -> object:
    """A whole number as text: YAML reads a bare `1` as a number, and Kubernetes takes it."""
    return str(value) if type(value) is int else value


Quantity = Annotated[
    str,
    BeforeValidator(_as_text),
    Field(max_length=32, pattern=QUANTITY_PATTERN),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "maxLength": 32,
            "pattern": QUANTITY_PATTERN,
            "x-kubernetes-int-or-string": True,
        }
    ),
]
Quantities = Annotated[dict[str, Quantity], Field(max_length=16)]
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=OBJECT_NAME)]
Text = Annotated[str, Field(max_length=253)]
LabelValue = Annotated[
    str, Field(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")
]
Labels = Annotated[dict[str, LabelValue], Field(max_length=32)]
Annotations = Annotated[dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=32)]
#: An object of Kubernetes that is not looked into.
Preserved: TypeAlias = Annotated[
    dict[str, JsonValue],
    WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
]


class Resources(Closed):
    """What a serving container asks for and may use; extended resources such as GPUs included."""

    requests: Quantities = Field(default_factory=dict)
    """What a node must have free."""
    limits: Quantities = Field(default_factory=dict)
    """What the container may use. Extended resources belong here."""


class Toleration(Closed):
    """A taint that pods put up with."""

    key: Text | None = None
    """The taint's key. Unset with operator Exists: every taint."""
    operator: Literal["Exists", "Equal"] | None = None
    """How the value is compared. Default: Equal."""
    value: Text | None = None
    """The taint's value, with operator Equal."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Which effect. Unset: every effect."""
    toleration_seconds: Annotated[int, Field(ge=0, le=9_999_999_999)] | None = None
    """How long NoExecute is put up with. Unset: for ever."""


class PullSecret(Closed):
    """A Secret with the credentials of an image registry, in the model's namespace."""

    name: ObjectName
    """The Secret."""


_EXPANSION_RULE: Rule = (
    "!self.value.contains('$(') && !self.value.contains('$$')",
    "an env value holds neither $( nor $$, which Kubernetes would expand",
)
_OWN_VARIABLES = ("POD_IP", "ENGINE_PORT", "SUPERVISOR_PORT")
_OWN_VARIABLE_RULE: Rule = (
    f"(self.name == '{Variable.ENGINE}' || !self.name.startsWith('PUMAS_'))"
    f" && !(self.name in {list(_OWN_VARIABLES)})",
    "env may not set POD_IP, ENGINE_PORT, SUPERVISOR_PORT or PUMAS_*, which are the pod's own"
    f" ({Variable.ENGINE} apart)",
)


class EnvVariable(Closed):
    """A variable of every container."""

    model_config = closed(_EXPANSION_RULE, _OWN_VARIABLE_RULE)

    name: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    """The variable."""
    value: Annotated[str, Field(max_length=4096)]
    """Its value."""

    @model_validator(mode="after")
    def _plain(self) -> Self:
        if "$(" in self.value or "$$" in self.value:
            raise ValueError(_EXPANSION_RULE[1])
        if self.name == Variable.ENGINE:
            return self
        if self.name.startswith("PUMAS_") or self.name in _OWN_VARIABLES:
            raise ValueError(_OWN_VARIABLE_RULE[1])
        return self


class CaBundle(Closed):
    """Certificate authorities, in a ConfigMap of the model's namespace."""

    name: ObjectName
    """The ConfigMap."""
    key: Annotated[
        str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9_][-A-Za-z0-9_.]*$")
    ] = "ca.crt"
    """Which of its keys holds the certificates, in PEM."""


class ScratchCache(Closed):
    """A cache that lives as long as its pod."""

    size_limit: Quantity
    """What it may hold; a pod that exceeds it is evicted."""


class ClaimCache(Closed):
    """A cache that outlives pods, on a volume of the model's namespace."""

    claim_name: ObjectName
    """The PersistentVolumeClaim."""


_ONE_CACHE_RULE: Rule = (
    "has(self.emptyDir) != has(self.persistentVolumeClaim)",
    "cache needs exactly one of: emptyDir, persistentVolumeClaim",
)


class Cache(Closed):
    """Where fetched files are kept. Exactly one member."""

    model_config = closed(_ONE_CACHE_RULE)

    empty_dir: ScratchCache | None = None
    """On the node, as long as the pod lives."""
    persistent_volume_claim: ClaimCache | None = None
    """On a volume, longer than any pod."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.empty_dir is None) == (self.persistent_volume_claim is None):
            raise ValueError(_ONE_CACHE_RULE[1])
        return self
