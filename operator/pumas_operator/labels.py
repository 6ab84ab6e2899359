"""What every child of a ServedModel carries: labels, the model's name, and whose it is.

Pods are selected by the model's uid. A model that is deleted and made again under its old name is
another model: pods that its predecessor leaves behind are never taken for its own.
"""

from __future__ import annotations

from pumas_crds.served_model import ServedModel
from pumas_crds.vocabulary import (
    API_VERSION,
    COMPONENT_LABEL,
    INSTANCE_LABEL,
    MANAGED_BY_LABEL,
    MANAGED_BY_VALUE,
    MODEL_LABEL,
    MODEL_NAME_ANNOTATION,
    MODEL_UID_LABEL,
    NAME_LABEL,
    PART_OF_LABEL,
    PART_OF_VALUE,
    SERVING_POD,
    WORKER_NAME,
)
from pumas_operator import names

Object = dict[str, object]


def select_pods(model: ServedModel) -> dict[str, str]:
    """The labels that the model's serving pods, and no others, have."""
    return {NAME_LABEL: WORKER_NAME, MODEL_UID_LABEL: model.metadata.uid}


def selector_text(model: ServedModel) -> str:
    """The same in the form of a query, as an autoscaler and `kubectl -l` take it."""
    return ",".join(f"{label}={value}" for label, value in select_pods(model).items())


def build_labels(
    model: ServedModel, name: str = WORKER_NAME, component: str = SERVING_POD
) -> dict[str, str]:
    """The labels of a child."""
    instance = names.instance(model.metadata.name)
    return {
        NAME_LABEL: name,
        INSTANCE_LABEL: instance,
        COMPONENT_LABEL: component,
        PART_OF_LABEL: PART_OF_VALUE,
        MANAGED_BY_LABEL: MANAGED_BY_VALUE,
        MODEL_LABEL: instance,
        MODEL_UID_LABEL: model.metadata.uid,
    }


def build_metadata(name: str, model: ServedModel, labels: dict[str, str] | None = None) -> Object:
    """The metadata of a child of that name: the model owns it, and nobody waits for it."""
    return {
        "name": name,
        "namespace": model.metadata.namespace,
        "labels": labels or build_labels(model),
        "annotations": {MODEL_NAME_ANNOTATION: model.metadata.name},
        "ownerReferences": [
            {
                "apiVersion": API_VERSION,
                "kind": model.kind,
                "name": model.metadata.name,
                "uid": model.metadata.uid,
                "controller": True,
                # Deleting a model or its namespace must never wait for a child.
                "blockOwnerDeletion": False,
            }
        ],
    }
