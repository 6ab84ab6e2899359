"""Names of a model's children, computed from the parent here and nowhere else.

Create, look-up and delete call the same function and so cannot disagree. Every name is at once a
DNS label and a label value: at most 63 characters, no dots; a Service's begins with a letter too.
A parent whose name does not fit is changed and told apart by a digest of the whole name.
"""

from __future__ import annotations

from hashlib import sha256

LIMIT = 63
DIGEST_LENGTH = 8


def workload(model: str) -> str:
    """The Deployment; its pods' names begin with it."""
    return _fit(model, "-serving")


def service(model: str) -> str:
    """The Service, whose name may not begin with a digit."""
    return _fit(model, "-serving", prefix="" if model[0].isalpha() else "m-")


def disruption_budget(model: str) -> str:
    """The PodDisruptionBudget."""
    return _fit(model, "-serving")


def network_policy(model: str) -> str:
    """The NetworkPolicy."""
    return _fit(model, "-serving")


def engine_key_secret(model: str) -> str:
    """The Secret that holds the key which the engine asks for."""
    return _fit(model, "-engine-key")


def inspection_job(model: str, inspection_hash: str) -> str:
    """The Job that inspects one source: another source is another Job."""
    return _fit(model, f"-inspect-{inspection_hash[:DIGEST_LENGTH]}")


def instance(model: str) -> str:
    """The label value that tells one model's children from another's."""
    return _fit(model, "")


def _fit(model: str, suffix: str, prefix: str = "") -> str:
    plain = prefix + model.replace(".", "-")
    if plain == model and len(model) + len(suffix) <= LIMIT:
        return model + suffix
    digest = sha256(model.encode()).hexdigest()[:DIGEST_LENGTH]
    room = LIMIT - len(suffix) - DIGEST_LENGTH - 1
    return f"{plain[:room].rstrip('-')}-{digest}{suffix}"
