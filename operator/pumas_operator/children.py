"""The other children of a ServedModel, beside its Deployment: plain Kubernetes objects.

The Service is headless and exists for its EndpointSlices, by which routers find the pods; the
NetworkPolicy lets nobody but routers near an engine; the Secret holds the key that engines ask for.
"""

from __future__ import annotations

import base64

from pumas_crds.served_model import ServedModel
from pumas_crds.serving_profile import ServingProfile
from pumas_crds.vocabulary import (
    ENGINE_KEY_FILE,
    ENGINE_PORT,
    ENGINE_PORT_NAME,
    NAME_LABEL,
    OPERATOR_NAME,
    ROUTER_NAME,
    SUPERVISOR_PORT,
    SUPERVISOR_PORT_NAME,
)
from pumas_operator import names
from pumas_operator.labels import Object, build_metadata, select_pods
from pumas_operator.manifests import Settings, build_deployment

#: Kubernetes gives it to every namespace, and nobody can change it.
NAMESPACE_LABEL = "kubernetes.io/metadata.name"


def build_children(
    model: ServedModel, profile: ServingProfile, settings: Settings, engine_key: str
) -> tuple[Object, ...]:
    """All children of a model that we serve, in the order in which they are made."""
    return (
        build_secret(model, engine_key),
        build_service(model),
        build_disruption_budget(model),
        build_network_policy(model, settings.namespace),
        build_deployment(model, profile, settings),
    )


def build_secret(model: ServedModel, engine_key: str) -> Object:
    """The Secret with the engine's API key."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": build_metadata(names.engine_key_secret(model.metadata.name), model),
        "type": "Opaque",
        "data": {ENGINE_KEY_FILE: base64.b64encode(engine_key.encode()).decode("ascii")},
    }


def build_service(model: ServedModel) -> Object:
    """The headless Service over the model's pods."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": build_metadata(names.service(model.metadata.name), model),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "selector": select_pods(model),
            "ports": [
                _port(ENGINE_PORT_NAME, ENGINE_PORT),
                _port(SUPERVISOR_PORT_NAME, SUPERVISOR_PORT),
            ],
        },
    }


def build_disruption_budget(model: ServedModel) -> Object:
    """The PodDisruptionBudget: one pod at a time leaves a node that is drained.

    A pod that is not ready may always leave: it serves nobody, and would hold the node for ever.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": build_metadata(names.disruption_budget(model.metadata.name), model),
        "spec": {
            "maxUnavailable": 1,
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": select_pods(model)},
        },
    }


def build_network_policy(model: ServedModel, home: str) -> Object:
    """The NetworkPolicy: engines hear routers alone, supervisors routers and the operator.

    Those of the installation in the namespace `home`: a label anybody can give to a pod of theirs.
    """
    router, operator = _peer(ROUTER_NAME, home), _peer(OPERATOR_NAME, home)
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": build_metadata(names.network_policy(model.metadata.name), model),
        "spec": {
            "podSelector": {"matchLabels": select_pods(model)},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [router], "ports": [_named(ENGINE_PORT_NAME)]},
                {"from": [router, operator], "ports": [_named(SUPERVISOR_PORT_NAME)]},
            ],
        },
    }


def _port(name: str, number: int) -> Object:
    return {"name": name, "port": number, "targetPort": name, "protocol": "TCP"}


def _named(port: str) -> Object:
    return {"protocol": "TCP", "port": port}


def _peer(name: str, namespace: str) -> Object:
    """Pods of that name in that namespace; models live in others than the installation."""
    return {
        "namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: namespace}},
        "podSelector": {"matchLabels": {NAME_LABEL: name}},
    }
