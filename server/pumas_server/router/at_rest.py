"""Why a model that nobody wakes cannot be called, and what ends that. Pure."""

from __future__ import annotations

from pumas_crds.facts import Fault
from pumas_crds.served_model import ServedModel
from pumas_crds.vocabulary import LoadState, Reason, Runtime
from pumas_server.router.lmsp.action import Action
from pumas_server.router.lmsp.paths import action_path


def explain_rest(model: ServedModel, load_state: LoadState, *, managed: bool) -> Fault | None:
    """The reason of a model without endpoints, when no pod is wanted and no request changes that.

    None of one that is waked by a request, that failed or is suspended, and of a server that is not
    ours. `managed`: models are loaded by request here.
    """
    spec = model.spec
    wakes = spec.effective_activation.on_demand or spec.runtime is Runtime.EXTERNAL
    if spec.replicas or wakes or spec.suspend or load_state is LoadState.FAILED:
        return None
    way_out = (
        f"POST {action_path(model.catalogue_id, Action.LOAD)} loads it"
        if managed
        else "it is loaded where spec.replicas is 1 or more"
    )
    message = f"No pod is wanted, and no request to it changes that; {way_out}."
    return Fault(reason=Reason.SCALED_TO_ZERO, message=message)
