"""What a cluster may hold of a model that was served, was changed, or is looked at: inputs of a plan."""

from __future__ import annotations

import json
from typing import Any

from pumas_crds.facts import Fault, FileFacts
from pumas_crds.served_model import ServedModel, ServedModelStatus
from pumas_crds.serving_profile import ServingProfile
from pumas_crds.vocabulary import SPEC_HASH_ANNOTATION, Reason
from pumas_operator.children import build_children
from pumas_operator.inspection_job import build_inspection_job, inspection_hash
from pumas_operator.kinds import DEPLOYMENT
from pumas_operator.manifests import Settings
from pumas_operator.plan import Plan, Snapshot, build_plan
from support.kubernetes import condition, container, pod, terminated
from support.models import served_model, serving_profile

SETTINGS = Settings(image="registry.example/worker:1", namespace="pumas-system")
PROFILE = serving_profile()
OTHER_IMAGE = serving_profile(images={"llama.cpp": "registry.example/worker:2"})
FILE: dict[str, Any] = {"architecture": "llama", "sizeBytes": 10}
NOT_A_MODEL: dict[str, Any] = {"reason": "NotAModel", "message": "It is no model."}
UNREADABLE = Fault(reason=Reason.INVALID_SPEC, message="The ServingProfile default cannot be read.")


def model(**spec: Any) -> ServedModel:
    """The model; every one here is `tiny`."""
    if spec.get("runtime") != "external":
        spec.setdefault("source", hub("tiny.gguf"))
    return served_model("tiny", **spec)


def hub(file: str) -> dict[str, Any]:
    """A source that every profile allows."""
    return {"huggingFace": {"repo": "team/tiny", "file": file}}


def known(of: ServedModel, now: ServedModel | None = None) -> ServedModel:
    """The model `now`, whose status has a good verdict on the file of `of`."""
    status = ServedModelStatus(
        file=FileFacts.model_validate(FILE), inspection_hash=inspection_hash(of)
    )
    return (now or of).model_copy(update={"status": status})


def deployed(of: ServedModel, profile: ServingProfile = PROFILE) -> dict[str, Any]:
    """The Deployment of a model as the cluster has it."""
    return _stored(build_children(of, profile, SETTINGS, "key")[-1])


def job(of: ServedModel, profile: ServingProfile = PROFILE, **status: Any) -> dict[str, Any]:
    """The inspection Job of a model as the cluster has it."""
    return {**_stored(build_inspection_job(of, profile, SETTINGS)), "status": status}


def going(body: dict[str, Any]) -> dict[str, Any]:
    """The object while it is being deleted."""
    metadata = body["metadata"] | {"deletionTimestamp": "2030-01-01T00:00:00Z"}
    return body | {"metadata": metadata}


def _stored(desired: object) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(json.dumps(desired))
    body["metadata"]["uid"] = f"uid-of-{body['metadata']['name']}"
    return body


def inspector(of: dict[str, Any], told: dict[str, Any] | None = None) -> dict[str, Any]:
    """The pod of a Job, with its verdict if it has one."""
    end = {} if told is None else terminated(0, json.dumps(told))
    body = pod("inspector", inspect=container("inspect", end))
    body["metadata"]["labels"] = of["metadata"]["labels"]
    body["metadata"]["ownerReferences"] = [{"kind": "Job", "uid": of["metadata"]["uid"]}]
    return body


def serving(of: dict[str, Any], name: str = "pod") -> dict[str, Any]:
    """A ready pod of a Deployment."""
    template = of["spec"]["template"]["metadata"]
    digest = template["annotations"][SPEC_HASH_ANNOTATION]
    body = pod(name, conditions=[condition("Ready", "True")], spec_hash=digest)
    body["metadata"]["labels"] = template["labels"]
    return body


def plan(snapshot: Snapshot) -> Plan:
    """The plan for it."""
    return build_plan(snapshot, SETTINGS, "key")


OLD = model(replicas=2)
SERVES = {DEPLOYMENT: deployed(OLD)}
BAD = model(replicas=2, source=hub("bad.gguf"))
BAD_LESS = model(replicas=1, source=hub("bad.gguf"))
BAD_MORE = model(replicas=3, source=hub("bad.gguf"))
BAD_SUSPENDED = model(replicas=2, source=hub("bad.gguf"), suspend=True)
NOT_ALLOWED = model(replicas=0, source={"path": "/weights/tiny.gguf"})
FAR = model(runtime="external", endpoint={"url": "http://far.example"})
FAR_PROFILE = serving_profile(allowedEndpointHosts=["far.example"])


def judged_bad(now: ServedModel) -> Snapshot:
    """The model was served by an old spec; the file of the new one is no model."""
    looks = job(now)
    pods = (inspector(looks, {"error": NOT_A_MODEL}),)
    return Snapshot(known(OLD, now), PROFILE, children=SERVES, jobs=(job(OLD), looks), pods=pods)


def name_of(body: Any) -> str:
    """The name of any object."""
    return str(body["metadata"]["name"])
