"""Demand: how routers tell the operator that a model is used, or is to be loaded once more. Pure.

One Lease a model, in the namespace of routers and operator, named by a digest of the model's uid.
Its `renewTime` moves while the model is used; an annotation holds the last explicit load request,
a word that differs from the one before. Nobody compares clocks: the operator counts from the moment
at which it saw the Lease change.
"""

from __future__ import annotations

from hashlib import sha256

from pumas_crds.vocabulary import GROUP

#: A router renews no more often than this, and no less while the model is used.
RENEW_SECONDS = 15.0

LOAD_REQUEST_ANNOTATION = f"{GROUP}/load-request"
PURPOSE_LABEL = f"{GROUP}/purpose"
DEMAND = "demand"
#: Of Leases that routers keep for themselves, which are no demand: the operator passes them over.
REQUEST = "request"


def demand_lease(model_uid: str) -> str:
    """The name of the model's Lease."""
    return f"pumas-demand-{sha256(model_uid.encode()).hexdigest()[:24]}"
