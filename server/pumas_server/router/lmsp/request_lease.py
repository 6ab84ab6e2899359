"""The record of a request as a Lease: its name, its words, and what is read of it. Pure.

Named by a digest of principal and key, which nobody can read back. It is somebody's from its
`renewTime` on for `leaseDurationSeconds`: the claimant's, by a token, and once the answer stands in
it, the answer's.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from pumas_crds.demand import PURPOSE_LABEL, REQUEST
from pumas_crds.vocabulary import GROUP
from pumas_server.router.cluster_answers import Json
from pumas_server.router.leases import build_lease, micro_time
from pumas_server.router.lmsp.request_records import CLAIM_SECONDS, KEPT_SECONDS, StoredAnswer

FINGERPRINT_ANNOTATION = f"{GROUP}/fingerprint"
ANSWER_ANNOTATION = f"{GROUP}/answer"

SELECTOR = f"{PURPOSE_LABEL}={REQUEST}"


@dataclass(frozen=True, slots=True)
class RequestLease:
    """What a record says."""

    holder: str
    """The token of the claim."""
    fingerprint: str
    renewed: datetime
    """When it was claimed or, once there is an answer, stored; by the clock of that router."""
    seconds: int
    """How long it is somebody's from then on."""
    answer: StoredAnswer | None


@dataclass(frozen=True, slots=True)
class Version:
    """One state of one object: what a change or a deletion of it holds for."""

    name: str
    uid: str
    resource_version: str


def lease_name(principal: str, key: str) -> str:
    """The name of the record of a principal's key."""
    # A key came in a header and holds no NUL: no two pairs have one text.
    digest = sha256(f"{principal}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"pumas-request-{digest[:32]}"


def build_claim(name: str, token: str, fingerprint: str, now: datetime) -> dict[str, object]:
    """The record of a claim. Without the label of what is ours: the operator need not see it."""
    labels, annotations = {PURPOSE_LABEL: REQUEST}, {FINGERPRINT_ANNOTATION: fingerprint}
    return build_lease(name, labels, annotations, token, CLAIM_SECONDS, now)


def build_takeover(claim: Json, version: Version) -> dict[str, object]:
    """The same in place of the record as it was found, and of no other."""
    metadata = claim["metadata"]
    assert isinstance(metadata, dict)
    return {**claim, "metadata": metadata | build_precondition(version)}


def build_answer(version: Version, answer: StoredAnswer, now: datetime) -> dict[str, object]:
    """The merge patch that puts the answer into the record as it was claimed."""
    text = json.dumps({"status": answer.status, "body": answer.body})
    return {
        "metadata": {**build_precondition(version), "annotations": {ANSWER_ANNOTATION: text}},
        "spec": {"renewTime": micro_time(now), "leaseDurationSeconds": KEPT_SECONDS},
    }


def build_precondition(version: Version) -> dict[str, object]:
    """What the API server compares before it changes or deletes an object."""
    return {"uid": version.uid, "resourceVersion": version.resource_version}


class _Read(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore")


class _Metadata(_Read):
    name: str = Field(min_length=1)
    uid: str = Field(min_length=1)
    resource_version: str = Field(min_length=1)


class _Identified(_Read):
    metadata: _Metadata


class _Annotated(_Read):
    annotations: dict[str, str]


class _Spec(_Read):
    holder_identity: str = Field(min_length=1)
    lease_duration_seconds: int = Field(gt=0)
    renew_time: AwareDatetime


class _Lease(_Read):
    metadata: _Annotated
    spec: _Spec


class _Answer(_Read):
    status: int = Field(ge=100, le=599)
    body: str


def read_version(lease: Json) -> Version | None:
    """Which state of which object it is; None when it is no object of Kubernetes."""
    try:
        metadata = _Identified.model_validate(lease).metadata
    except ValidationError:
        return None
    return Version(metadata.name, metadata.uid, metadata.resource_version)


def read_request(lease: Json) -> RequestLease | None:
    """What it says; None when that is not in our words."""
    try:
        read = _Lease.model_validate(lease)
        told = read.metadata.annotations
        fingerprint, text = told[FINGERPRINT_ANNOTATION], told.get(ANSWER_ANNOTATION)
        answer = None if text is None else _Answer.model_validate_json(text)
    except (ValidationError, KeyError):
        return None
    return RequestLease(
        read.spec.holder_identity,
        fingerprint,
        read.spec.renew_time,
        read.spec.lease_duration_seconds,
        None if answer is None else StoredAnswer(answer.status, answer.body),
    )
