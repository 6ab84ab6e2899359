"""Activation: when a model that sleeps is loaded, and when it is put to sleep."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from pumas_crds.resource import Closed, Rule, closed

IDLE_SECONDS = 300
LOAD_TIMEOUT_SECONDS = 600
HOLD_SECONDS = 60

_ON_DEMAND_RULE: Rule = (
    "self.onDemand || (!has(self.idleSeconds) && !has(self.holdSeconds))",
    "idleSeconds and holdSeconds act on models that are loaded on demand: set onDemand",
)


class Activation(Closed):
    """When the model is loaded and unloaded, beside explicit loads and unloads."""

    model_config = closed(_ON_DEMAND_RULE)

    on_demand: bool = False
    """Whether a request loads the model, and rest unloads it."""
    idle_seconds: Annotated[int, Field(ge=60, le=31_536_000)] | None = None
    """How long nobody may have used the model before it is unloaded. Default: 300."""
    load_timeout_seconds: Annotated[int, Field(ge=10, le=86_400)] | None = None
    """How long an engine may take to load before its pod is started anew. Default: 600."""
    hold_seconds: Annotated[int, Field(ge=0, le=3600)] | None = None
    """How long a request waits for the model to be loaded. Default: 60."""

    @model_validator(mode="after")
    def _acts(self) -> Self:
        if not self.on_demand and (self.idle_seconds, self.hold_seconds) != (None, None):
            raise ValueError(_ON_DEMAND_RULE[1])
        return self

    @property
    def idle_after(self) -> int:
        """Seconds without use after which the model is unloaded."""
        return IDLE_SECONDS if self.idle_seconds is None else self.idle_seconds

    @property
    def load_timeout(self) -> int:
        """Seconds that an engine may take to load."""
        told = self.load_timeout_seconds
        return LOAD_TIMEOUT_SECONDS if told is None else told

    @property
    def hold(self) -> int:
        """Seconds that a request waits for the model."""
        return HOLD_SECONDS if self.hold_seconds is None else self.hold_seconds
