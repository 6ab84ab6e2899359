"""Events of a ServedModel: what `kubectl describe` tells beside the conditions. Pure.

One for each change of a condition. It is named after what changed and the second in which that was
told: whoever writes the same change once more in the same second meets a name that is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from hashlib import sha256

from pumas_crds.resource import Condition
from pumas_crds.served_model import ServedModelStatus
from pumas_crds.vocabulary import ConditionType, Reason
from pumas_operator.json_object import Json, member, text
from pumas_operator.kinds import EVENT, SERVED_MODEL
from pumas_operator.labels import Object
from pumas_operator.requests import FIELD_MANAGER

#: Told by another condition with the same reason.
_SILENT = frozenset({ConditionType.READY})
#: Changes that are no cause for worry though the condition does not hold.
_EXPECTED = frozenset(
    {
        Reason.DRAINING,
        Reason.INSPECTING,
        Reason.NOT_OBSERVED,
        Reason.ROLLED_OUT,
        Reason.SCALED_TO_ZERO,
        Reason.STARTING,
        Reason.SUSPENDED,
    }
)


def build_events(
    model: Json, before: ServedModelStatus, after: ServedModelStatus, now: datetime
) -> Iterator[Object]:
    """The events of a status that was written over another."""
    known = {condition.type: condition for condition in before.conditions}
    for condition in after.conditions:
        was = known.get(condition.type)
        if condition.type in _SILENT or (was is None and _begins(condition)):
            continue
        if was is None or (was.status, was.reason) != (condition.status, condition.reason):
            yield _event(model, condition, now)


def _begins(condition: Condition) -> bool:
    """Whether a condition that is new says nothing but that nothing is there yet."""
    return condition.reason == Reason.NO_ENDPOINT


def _event(model: Json, condition: Condition, now: datetime) -> Object:
    metadata = member(model, "metadata")
    namespace, name, uid = (text(metadata, part) for part in ("namespace", "name", "uid"))
    told = (uid, condition.type, condition.status, condition.reason, now.isoformat())
    digest = sha256("/".join(told).encode()).hexdigest()[:16]
    # A name may not be cut behind a dot or a dash.
    shown = name[:230].rstrip("-.")
    at = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    holds = condition.status == "True" and condition.type is not ConditionType.PROGRESSING
    well = holds or condition.reason in _EXPECTED
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.name,
        "metadata": {"name": f"{shown}.{digest}", "namespace": namespace},
        "involvedObject": {
            "apiVersion": SERVED_MODEL.api_version,
            "kind": SERVED_MODEL.name,
            "namespace": namespace,
            "name": name,
            "uid": uid,
        },
        "type": "Normal" if well else "Warning",
        "reason": condition.reason,
        "message": f"{condition.type} is {condition.status}: {condition.message}"[:1024],
        "source": {"component": FIELD_MANAGER},
        "reportingComponent": FIELD_MANAGER,
        "reportingInstance": FIELD_MANAGER,
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
