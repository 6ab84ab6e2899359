"""A row of the catalogue: one (alias, profile) pair, and what it is made of. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from pumas_crds.facts import Fault
from pumas_crds.served_model import ServedModel
from pumas_crds.vocabulary import LoadState, Runtime
from pumas_server.capabilities import Facts, declare
from pumas_server.contract.descriptors import (
    ON_DEMAND,
    Capabilities,
    Descriptor,
    Modalities,
    RowError,
    ServedModelEntry,
)
from pumas_server.router.observations import Observation
from pumas_server.router.source import Endpoint, ModelRecord

_PROVIDERS = {
    Runtime.LLAMA_CPP: "llama_cpp",
    Runtime.ONNX_RUNTIME: "onnx_runtime",
    Runtime.EXTERNAL: "openai_compatible",
}


@dataclass(frozen=True, slots=True)
class Identity:
    """Serving identity: what must not change between resolving a call and admitting it."""

    model_uid: str
    spec_hash: str
    endpoint_uid: str
    boot_id: str


@dataclass(frozen=True, slots=True)
class Target:
    """An endpoint that may be called now."""

    identity: Identity
    endpoint: Endpoint
    limit: int
    """Calls that it may have in flight."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a row is made of."""

    record: ModelRecord
    observations: tuple[Observation, ...]
    """Of the record's endpoints, in their order."""
    profile_required: bool


@dataclass(frozen=True)
class Row:
    """One (alias, profile) pair, as it is now."""

    model: ServedModel
    load_state: LoadState
    facts: Facts
    descriptors: tuple[Descriptor, ...]
    targets: tuple[Target, ...]
    error: Fault | None
    rest: Fault | None
    """Why it cannot be called when it is at rest and nothing wakes it, and what does."""
    profile_required: bool
    made_of: Evidence

    @property
    def alias(self) -> str:
        """The contract's `model`."""
        return self.model.alias

    @property
    def profile(self) -> str:
        """The contract's `profile`."""
        return self.model.profile

    @property
    def external(self) -> bool:
        """Whether the server is not ours."""
        return self.model.spec.runtime is Runtime.EXTERNAL

    @property
    def on_demand(self) -> bool:
        """Whether a request loads it."""
        return self.model.spec.effective_activation.on_demand

    @property
    def asleep(self) -> bool:
        """Whether nothing can be called now, and a request would change that."""
        failed = self.load_state is LoadState.FAILED
        return self.on_demand and not self.targets and not failed

    @cached_property
    def awake_descriptors(self) -> tuple[Descriptor, ...]:
        """What it will offer when it is awake, as far as is known at rest."""
        known = self.facts.modalities
        takes = self.facts.takes or ("text",)
        modalities = Modalities(input=takes, output=known.output)
        return declare(self.model.spec, replace(self.facts, ready=True, modalities=modalities))

    @property
    def upstream_model(self) -> str:
        """What the endpoint is asked for as `model`."""
        endpoint = self.model.spec.endpoint
        return endpoint.model or self.alias if endpoint is not None else self.alias

    @property
    def model_id(self) -> str:
        """The library identifier."""
        spec = self.model.spec
        if spec.catalogue.model_id is not None:
            return spec.catalogue.model_id
        if spec.source is not None:
            return spec.source.model_id()
        return self.upstream_model

    @property
    def modalities(self) -> Modalities:
        """As the runtime declares them."""
        return self.facts.modalities

    @cached_property
    def entry(self) -> ServedModelEntry:
        """The row of `/v1/served-models`."""
        return ServedModelEntry(
            model=self.alias,
            profile=self.profile,
            model_id=self.model_id,
            provider=_PROVIDERS[self.model.spec.runtime],
            load_state=self.load_state,
            context_tokens=self.facts.context_tokens,
            profile_required=self.profile_required,
            modalities=self.modalities,
            capabilities=self.descriptors,
            error=self._row_error(),
            activation=ON_DEMAND if self.on_demand else None,
        )

    def capabilities(self, model: str) -> Capabilities:
        """The body of `/v1/capabilities`; `model` is echoed as the caller wrote it."""
        return Capabilities(
            model=model,
            profile=self.profile,
            context_tokens=self.facts.context_tokens,
            modalities=self.modalities,
            capabilities=self.descriptors,
            error=self._row_error(),
            activation=ON_DEMAND if self.on_demand else None,
        )

    @property
    def faults(self) -> tuple[Fault, ...]:
        """All that keeps it from serving, as far as that is known."""
        return tuple(fault for fault in (self.error, self.rest) if fault is not None)

    def _row_error(self) -> RowError | None:
        faults = self.faults
        return RowError(reason=faults[0].reason, message=faults[0].message) if faults else None
