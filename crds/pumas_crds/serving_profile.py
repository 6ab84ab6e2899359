"""ServingProfile: what an administrator decides for all models that name it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pumas_crds.resource import Closed, ObjectMeta
from pumas_crds.served_model import Engine
from pumas_crds.vocabulary import API_VERSION, DEFAULT_PROFILE

HostName = Annotated[str, Field(min_length=1, max_length=253)]


class ServingProfileSpec(Closed):
    """Everything is optional; what is unset keeps the built-in default."""

    engine: Engine = Engine()
    """Engine settings for models that do not set them."""
    drain_seconds: Annotated[int, Field(ge=0, le=86_400)] | None = None
    """Default of `drainSeconds` for models that do not set it."""
    allowed_endpoint_hosts: Annotated[tuple[HostName, ...], Field(max_length=64)] = ()
    """Hosts that `runtime: external` may name, beside this machine in local mode.

    Empty: in local mode every host, in a cluster none.
    """


class ServingProfile(Closed):
    """How models of this profile are run."""

    api_version: Literal["serving.pumas.dev/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["ServingProfile"] = "ServingProfile"
    metadata: ObjectMeta
    spec: ServingProfileSpec = ServingProfileSpec()


#: What a missing profile of that name means.
BUILT_IN_DEFAULT = ServingProfile(metadata=ObjectMeta(name=DEFAULT_PROFILE))
