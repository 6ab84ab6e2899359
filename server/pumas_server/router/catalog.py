"""The catalogue: one immutable picture of what can be called, swapped as a whole. Pure.

`build_catalog` makes it from the source's records and the endpoints' observations; every list
route is a projection of it, and every request is resolved against the one that was current when
it came.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from pumas_crds.facts import Fault
from pumas_crds.served_model import ServedModel
from pumas_crds.vocabulary import LoadState, Reason, Runtime, pod_in_flight
from pumas_server.capabilities import declare
from pumas_server.contract.descriptors import (
    ServedModels,
)
from pumas_server.contract.errors import Code, ContractError
from pumas_server.contract.strict_json import quoted
from pumas_server.router.at_rest import explain_rest
from pumas_server.router.catalog_row import Evidence, Identity, Row, Target
from pumas_server.router.last_facts import last_facts, select_inputs
from pumas_server.router.observations import UNOBSERVED, Observation, ObservationKey, key_of
from pumas_server.router.source import Endpoint, ModelRecord


class Catalog:
    """All rows, sorted by alias and profile, with their lookups."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = tuple(sorted(rows, key=lambda row: (row.alias, row.profile)))
        self._by_alias: dict[str, list[Row]] = defaultdict(list)
        self._by_model_id: dict[str, list[Row]] = defaultdict(list)
        for row in self.rows:
            self._by_alias[row.alias].append(row)
            self._by_model_id[row.model_id].append(row)
        self._by_uid = {row.model.metadata.uid: row for row in self.rows}
        self._identities = {t.identity for row in self.rows for t in row.targets}

    def holds(self, identity: Identity) -> bool:
        """Whether a target that was chosen earlier still is what it was."""
        return identity in self._identities

    def by_uid(self, model_uid: str) -> Row | None:
        """The row of one ServedModel, if it is listed."""
        return self._by_uid.get(model_uid)

    def select(self, model: str, profile: str | None) -> Row:
        """The row of a contract request. Raises `ContractError` (404, 409)."""
        rows = self._by_alias.get(model, [])
        if profile is not None:
            rows = [row for row in rows if row.profile == profile]
        if not rows:
            named = f" with profile {quoted(profile)}" if profile is not None else ""
            raise _not_served(quoted(model) + named)
        return _only(rows, model, "name one")

    def select_openai(self, model: str) -> Row:
        """The row of an OpenAI request: alias, else unique model id, else `alias@profile`.

        Raises `ContractError` (404, 409).
        """
        if rows := self._by_alias.get(model):
            return _only(rows, model, "send one of these as `model`", f"{model}@")
        if len(rows := self._by_model_id.get(model, [])) == 1:
            return rows[0]
        alias, _, profile = model.rpartition("@")
        for row in self._by_alias.get(alias, []):
            if row.profile == profile:
                return row
        raise _not_served(quoted(model))

    @cached_property
    def served_models(self) -> ServedModels:
        """The body of `/v1/served-models`."""
        return ServedModels(models=tuple(row.entry for row in self.rows))

    @cached_property
    def openai_models(self) -> dict[str, dict[str, object]]:
        """Models that a call can have, loaded or on demand, in the OpenAI shape, by id: each id
        once, with its profiles."""
        profiles: dict[str, list[str]] = defaultdict(list)
        for row in self.rows:
            if row.load_state is LoadState.LOADED or row.asleep:
                profiles[row.alias].append(row.profile)
        return {
            alias: {
                "id": alias,
                "object": "model",
                "created": 0,
                "owned_by": "pumas",
                "profiles": names,
            }
            for alias, names in profiles.items()
        }


def _not_served(named: str) -> ContractError:
    return ContractError(Code.MODEL_NOT_FOUND, f"no model {named} is served here")


def _only(rows: Sequence[Row], model: str, advice: str, prefix: str = "") -> Row:
    if len(rows) > 1:
        choices = ", ".join(prefix + row.profile for row in rows)
        raise ContractError(
            Code.AMBIGUOUS_MODEL,
            f"model {quoted(model)} is served by several profiles; {advice}: {choices}",
        )
    return rows[0]


def build_catalog(
    records: Sequence[ModelRecord],
    observations: Mapping[ObservationKey, Observation],
    external_in_flight: int,
    before: Catalog | None = None,
    *,
    managed: bool = False,
) -> Catalog:
    """The catalogue of what is known now. Losers of a duplicate identity are not listed.

    A row of which nothing has changed is taken from the catalogue `before`, which was built with
    the same limit and by a router of the same kind (`managed`: it loads models by request): with a
    thousand models one of them changes at a time.
    """
    listed = [r for r in records if not lost(r.model)]
    count: dict[str, int] = defaultdict(int)
    for record in listed:
        count[record.model.alias] += 1
    rows = []
    for record in listed:
        seen = tuple(observations.get(key_of(record, e), UNOBSERVED) for e in record.endpoints)
        made_of = Evidence(record, seen, count[record.model.alias] > 1)
        old = before.by_uid(record.model.metadata.uid) if before is not None else None
        same = old is not None and old.made_of == made_of
        rows.append(old if old is not None and same else _row(made_of, external_in_flight, managed))
    return Catalog(rows)


def lost(model: ServedModel) -> bool:
    """Whether another model has its identity: it is in no list."""
    error = model.status.error
    return error is not None and error.reason is Reason.DUPLICATE_IDENTITY


def _row(made_of: Evidence, external_in_flight: int, managed: bool) -> Row:
    record = made_of.record
    model, external = record.model, record.model.spec.runtime is Runtime.EXTERNAL
    seen = list(zip(record.endpoints, made_of.observations, strict=True))
    targets = tuple(
        Target(
            Identity(model.metadata.uid, record.spec_hash, endpoint.uid, said.boot_id),
            endpoint,
            external_in_flight if external else pod_in_flight(said.slots),
        )
        for endpoint, said in seen
        if endpoint.ready and said.facts.ready
    )
    # The facts of an endpoint that can be called, else of one that has said what it does; else what
    # is known of the model at rest.
    telling = [(e, said.facts) for e, said in seen if external or said.facts.mode is not None]
    callable_first = sorted(telling, key=lambda told: not (told[0].ready and told[1].ready))
    facts = callable_first[0][1] if callable_first else last_facts(record)
    if not targets:
        # An engine that starts has not told what it takes, but its files have.
        facts = replace(facts, ready=False, expected_input=select_inputs(model.status.file))
    load_state = _load_state(model, bool(targets))
    return Row(
        model=model,
        load_state=load_state,
        facts=facts,
        descriptors=declare(model.spec, facts),
        targets=targets,
        error=_error(model, seen, bool(targets)),
        rest=None if targets else explain_rest(model, load_state, managed=managed),
        profile_required=made_of.profile_required,
        made_of=made_of,
    )


def _load_state(model: ServedModel, answers: bool) -> LoadState:
    """The status's word; of an accepted external server the router's own probe decides."""
    if model.spec.runtime is Runtime.EXTERNAL and model.status.error is None:
        return LoadState.LOADED if answers else LoadState.LOADING
    return model.status.load_state


def _error(
    model: ServedModel, seen: Sequence[tuple[Endpoint, Observation]], answers: bool
) -> Fault | None:
    if model.status.error is not None or answers:
        return model.status.error
    problem = next((said.problem for _, said in seen if said.problem), "")
    if not problem:
        return None
    reason = Reason.NO_ENDPOINT if model.spec.runtime is Runtime.EXTERNAL else Reason.ENGINE_FAILED
    return Fault(reason=reason, message=problem)
