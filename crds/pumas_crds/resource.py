"""The base of all resource types, and the parts that every Kubernetes object has."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from pumas_crds.vocabulary import ConditionType

Rule: TypeAlias = tuple[str, str]
"""A CEL rule, and what is said when it does not hold."""


class Closed(BaseModel):
    """A record people write: camelCase on the wire, unknown members refused by name, immutable.

    The docstring below a field is its description in the CRD, hence in `kubectl explain`.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        defer_build=True,
    )


def closed(*rules: Rule) -> ConfigDict:
    """The configuration of a `Closed` record with the CEL twins of its validators."""
    return ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        defer_build=True,
        json_schema_extra={
            "x-kubernetes-validations": [{"rule": rule, "message": told} for rule, told in rules]
        },
    )


class Open(BaseModel):
    """A record a machine reports: it may grow, so readers ignore what they do not know."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
        frozen=True,
        defer_build=True,
    )


class ObjectMeta(Open):
    """The metadata we read. Kubernetes owns the rest of it."""

    name: Annotated[str, Field(max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
    namespace: Annotated[str, Field(max_length=63)] = "default"
    uid: str = ""
    resource_version: str = ""
    generation: int = 1
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class Condition(Open):
    """One observation about a resource, in the form all of Kubernetes uses."""

    type: ConditionType
    """What is observed."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    observed_generation: Annotated[int, Field(ge=0)] = 0
    """The `metadata.generation` that this was computed from."""
    last_transition_time: datetime
    """When `status` last changed."""
    reason: Annotated[str, Field(max_length=128, pattern=r"^[A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9])?$")]
    """One word for machines."""
    message: Annotated[str, Field(max_length=1024)] = ""
    """One sentence for people."""
