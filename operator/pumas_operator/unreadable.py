"""The status of a ServedModel that this release cannot read.

The API server refuses what the types refuse, but an object may be older than its definition, or
written for a newer one. It must neither stop the others nor go without an answer.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import ValidationError

from pumas_crds.facts import Fault
from pumas_crds.resource import Condition
from pumas_crds.served_model import ServedModel, ServedModelStatus
from pumas_crds.vocabulary import ConditionType, LoadState, Reason
from pumas_operator.json_object import Json, items, member, text, whole
from pumas_operator.sentence import build_sentence


def read_model(body: Json) -> ServedModel | Fault:
    """The model that an API object holds, or why it cannot be read: the first field at fault.

    A status that cannot be read is no fault: it is written anew.
    """
    try:
        try:
            return ServedModel.model_validate(body)
        except ValidationError:
            return ServedModel.model_validate({**body, "status": {}})
    except ValidationError as error:
        return describe_fault(error)


def read_status(body: Json) -> ServedModelStatus:
    """The status that an API object holds; an empty one where it cannot be read."""
    try:
        return ServedModelStatus.model_validate(member(body, "status"))
    except ValidationError:
        return ServedModelStatus()


def describe_fault(error: ValidationError, introduction: str = "") -> Fault:
    """The first field that cannot be read, as a fault of the object."""
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(str(step) for step in first["loc"])
    told = first["msg"].removeprefix("Value error, ")
    message = build_sentence(f"{introduction}{field}: {told}.")
    return Fault(reason=Reason.INVALID_SPEC, message=message)


def build_unreadable_status(body: Json, fault: Fault, now: datetime) -> ServedModelStatus:
    """The status: not accepted, and of the rest nothing is known."""
    generation = whole(member(body, "metadata"), "generation")
    before = {
        text(condition, "type"): (text(condition, "status"), text(condition, "lastTransitionTime"))
        for condition in items(member(body, "status"), "conditions")
    }
    status, since = before.get(ConditionType.ACCEPTED, ("", ""))
    condition = {
        "type": ConditionType.ACCEPTED,
        "status": "False",
        "observedGeneration": generation,
        "lastTransitionTime": since if status == "False" and since else now,
        "reason": fault.reason,
        "message": fault.message,
    }
    return ServedModelStatus(
        observed_generation=generation,
        load_state=LoadState.FAILED,
        error=fault,
        conditions=(Condition.model_validate(condition),),
    )
