"""The two CustomResourceDefinition objects, built from the types. Pure.

What one object must obey is said by its type, in bounds and in CEL. Here is only what no type can
know: names, printer columns, and the rules that compare an object with what it was before.
"""

from __future__ import annotations

from pumas_crds.resource import Rule
from pumas_crds.schema import Json, Schema, structural_resource
from pumas_crds.served_model import ServedModel
from pumas_crds.serving_profile import ServingProfile
from pumas_crds.vocabulary import DEFAULT_PROFILE, GROUP, VERSION, ConditionType

_ALIAS = "(has({0}.spec.alias) ? {0}.spec.alias : {0}.metadata.name)"
_PROFILE = f"(has({{0}}.spec.profile) ? {{0}}.spec.profile : '{DEFAULT_PROFILE}')"


def _unchanged(effective: str) -> str:
    return f"{effective.format('self')} == {effective.format('oldSelf')}"


#: Transition rules on effective values: writing a default out changes nothing and is allowed.
IMMUTABLE: tuple[Rule, ...] = (
    (_unchanged(_ALIAS), "spec.alias is immutable: create another ServedModel"),
    (_unchanged(_PROFILE), "spec.profile is immutable: create another ServedModel"),
)


def build_served_models() -> Schema:
    """The definition of `servedmodels`, short name `sm`."""
    servable = _condition(ConditionType.SERVABLE, "status")
    progress = _condition(ConditionType.PROGRESSING, "reason")
    version: Schema = {
        **_version(structural_resource(ServedModel, IMMUTABLE)),
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [
            _column("Alias", ".status.model", "The name that requests use"),
            _column("Profile", ".spec.profile", "The ServingProfile"),
            _column("Runtime", ".spec.runtime", "What answers for the model"),
            _column("State", ".status.loadState", "Where the model is on its way to serving"),
            _column("Servable", servable, "Whether the model answers now"),
            _column("Replicas", ".status.replicas", "Serving pods that exist", "integer"),
            _column("Age", ".metadata.creationTimestamp", "", "date"),
            _wide("Device", ".status.runtime.device", "Where the engine computes"),
            _wide("Context", ".status.runtime.contextTokens", "Context of a slot", "integer"),
            _wide("Reason", progress, "What the pods are doing, or why they do not"),
        ],
    }
    return _definition("ServedModel", version, short_names=["sm"])


def build_serving_profiles() -> Schema:
    """The definition of `servingprofiles`."""
    return _definition("ServingProfile", _version(structural_resource(ServingProfile)))


def _version(schema: Schema) -> Schema:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }


def _column(name: str, path: str, description: str, kind: str = "string") -> Schema:
    column: Schema = {"name": name, "type": kind, "jsonPath": path}
    return column | ({"description": description} if description else {})


def _wide(name: str, path: str, description: str, kind: str = "string") -> Schema:
    """A column that `kubectl get -o wide` shows."""
    return _column(name, path, description, kind) | {"priority": 1}


def _condition(kind: ConditionType, member: str) -> str:
    return f'.status.conditions[?(@.type=="{kind}")].{member}'


def _definition(kind: str, version: Schema, *, short_names: list[Json] | None = None) -> Schema:
    singular = kind.lower()
    names: Schema = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": f"{singular}s",
        "singular": singular,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{singular}s.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": names | ({"shortNames": short_names} if short_names else {}),
            "scope": "Namespaced",
            "versions": [version],
        },
    }
