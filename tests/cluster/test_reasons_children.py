"""What the cluster does not let us have: names that others hold, quotas, policies, evictions."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pumas_crds.served_model import ServedModel
from pumas_crds.vocabulary import ConditionType, Reason
from pumas_operator import names
from pumas_operator.inspection_job import inspection_hash
from support.cluster import Kubectl, soon
from support.models_server import ModelsServer
from support.small_pod import small_deployment
from support.team_models import Json, TeamModels

ACCEPTED, PROGRESSING = ConditionType.ACCEPTED, ConditionType.PROGRESSING
SERVABLE = ConditionType.SERVABLE
INSPECTED = "The file was inspected and can be served."
NOBODYS = {"matchLabels": {"app": "somebody-elses"}}


def foreign(kind: str, api_version: str, name: str, **members: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **members}


def in_the_way(model: Json) -> Json:
    """Somebody else's object; the model's name tells which of its children it is in the way of."""
    name = model["metadata"]["name"]
    match name:
        case "deployment":
            theirs = small_deployment(names.workload(name), ["true"], "1")
            theirs["spec"]["replicas"] = 0
            return theirs
        case "service":
            ports = {"selector": {"app": "somebody-elses"}, "ports": [{"port": 80}]}
            return foreign("Service", "v1", names.service(name), spec=ports)
        case "budget":
            spec = {"maxUnavailable": 2, "selector": NOBODYS}
            return foreign(
                "PodDisruptionBudget", "policy/v1", names.disruption_budget(name), spec=spec
            )
        case "policy":
            return foreign(
                "NetworkPolicy",
                "networking.k8s.io/v1",
                names.network_policy(name),
                spec={"podSelector": NOBODYS},
            )
        case "secret":
            theirs = names.engine_key_secret(name)
            return foreign("Secret", "v1", theirs, stringData={"engine-key": "theirs"})
        case _:
            inspection = inspection_hash(ServedModel.model_validate(model))
            made = small_deployment("theirs", ["true"], "1")["spec"]["template"]["spec"]
            spec = {"suspend": True, "template": {"spec": made | {"restartPolicy": "Never"}}}
            return foreign("Job", "batch/v1", names.inspection_job(name, inspection), spec=spec)


def untouched(body: Json) -> Any:
    """What is theirs of an object, and what nobody but them has written."""
    metadata = body["metadata"]
    assert {entry["manager"] for entry in metadata["managedFields"]} <= {
        *("kubectl-client-side-apply", "kube-controller-manager")
    }
    kept = {part: metadata.get(part) for part in ("uid", "labels", "ownerReferences")}
    return kept, body.get("spec"), body.get("data")


@pytest.mark.budget(180)
def test_what_is_somebody_elses_is_never_touched(
    models: TeamModels, models_server: ModelsServer
) -> None:
    source = models_server.source("tiny-embed.gguf")
    kinds = ("deployment", "service", "budget", "policy", "secret", "job")
    bodies = [models.body(kind, source=source, replicas=0) for kind in kinds]
    theirs = [in_the_way(body) for body in bodies]
    models.team.apply(*theirs)
    paths = [f"{each['kind']}/{each['metadata']['name']}" for each in theirs]

    def now() -> list[Any]:
        return [
            untouched(body) for body in models.team.get(*paths, "--show-managed-fields")["items"]
        ]

    before = now()
    models.team.apply(*bodies)
    for kind, each in zip(kinds, theirs, strict=True):
        name = each["metadata"]["name"]
        sentence = f"{each['kind']} {name} exists and is not this model's; it is left as it is."
        models.tells(kind, PROGRESSING, "False", Reason.NOT_OWNED, sentence)
        models.tells(kind, ConditionType.READY, "False", Reason.NOT_OWNED, sentence)
        if kind == "job":
            waits = "The file was not inspected yet."
            models.tells(kind, ACCEPTED, "Unknown", Reason.INSPECTING, waits)
        else:
            models.tells(kind, ACCEPTED, "True", Reason.ACCEPTED, INSPECTED)
    assert now() == before
    models.team("delete", *paths)
    for kind in kinds:
        models.tells(kind, ACCEPTED, "True", Reason.ACCEPTED, INSPECTED)
        models.tells(kind, PROGRESSING, "False", Reason.SCALED_TO_ZERO, "No pod is wanted.")
        assert models.team.get("secret", names.engine_key_secret(kind))["metadata"][
            "ownerReferences"
        ]


def quota(**hard: str) -> Json:
    hard = {name.replace("__", "/").replace("_", "."): amount for name, amount in hard.items()}
    return foreign("ResourceQuota", "v1", "tight", spec={"hard": hard})


@pytest.mark.budget(240)
def test_what_quota_and_policy_refuse_is_said_in_their_words(
    models: TeamModels, models_server: ModelsServer
) -> None:
    team, source = models.team, models_server.source("tiny-embed.gguf")
    policy = f"no-services-{team.namespace}"
    try:
        Kubectl().apply(*refuse_services(policy, team.namespace))
        probe = ("create", "service", "clusterip", "policy-probe", "--tcp=80", "--dry-run=server")
        soon(lambda: team.attempt(*probe).returncode != 0, "the policy to act", 30)
        team.apply(quota(count__deployments_apps="0"))
        team.apply(models.body("quota", source=source), models.body("policy", source=source))
        models.tells(
            "quota",
            PROGRESSING,
            "True",
            Reason.APPLY_REFUSED,
            re.compile(
                "The cluster refuses the Deployment quota-serving: .* exceeded quota: tight,"
                " requested: count/deployments.apps=1, used: count/deployments.apps=0, limited:"
                " count/deployments.apps=0"
            ),
        )
        models.tells(
            "policy",
            PROGRESSING,
            "True",
            Reason.APPLY_REFUSED,
            re.compile("The cluster refuses the Service policy-serving: .*: Not on this platform."),
        )
    finally:
        Kubectl()("delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", policy)
    # What the refusals left undone is done once they are gone.
    team("delete", "resourcequota", "tight")
    for name in ("quota", "policy"):
        models.tells(name, SERVABLE, "True", Reason.AVAILABLE, "1 of 1 pods answer.")

    team.apply(quota(pods="2"))
    soon(lambda: team.get("resourcequota", "tight").get("status", {}).get("used"), "the quota")
    team("scale", "sm/quota", "--replicas=2")
    team.apply(models.body("job", source=source, replicas=0))
    words = ".* exceeded quota: tight, requested: pods=1, used: pods=2, limited: pods=2"
    models.tells("quota", PROGRESSING, "True", Reason.REPLICA_FAILURE, re.compile(words))
    models.tells("quota", SERVABLE, "True", Reason.AVAILABLE, "1 of 1 pods answer.")
    waits = f"The file was not inspected yet. {words}"
    models.tells("job", ACCEPTED, "Unknown", Reason.INSPECTING, re.compile(waits))
    team("delete", "resourcequota", "tight")
    models.tells("quota", SERVABLE, "True", Reason.AVAILABLE, "2 of 2 pods answer.")
    models.tells("job", ACCEPTED, "True", Reason.ACCEPTED, INSPECTED)


def refuse_services(name: str, namespace: str) -> tuple[Json, Json]:
    group = "admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["services"]}
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule | {"operations": ["CREATE"]}]},
        "validations": [
            {
                "expression": "!object.metadata.name.startsWith('policy-')",
                "message": "Not on this platform.",
            }
        ],
    }
    here = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    binding = {
        "policyName": name,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": here},
    }
    return (
        foreign("ValidatingAdmissionPolicy", group, name, spec=policy),
        foreign("ValidatingAdmissionPolicyBinding", group, name, spec=binding),
    )


@pytest.mark.budget(240)
def test_an_evicted_pod_is_explained_while_none_takes_its_place(
    models: TeamModels, models_server: ModelsServer
) -> None:
    narrow = models.profile("narrow", cache={"emptyDir": {"sizeLimit": "64Ki"}})
    models.team.apply(
        models.body("large", profile=narrow, source=models_server.source("tiny-embed.gguf"))
    )
    models.told("large", PROGRESSING, "True", Reason.STARTING, re.compile(".*"))
    soon(lambda: models.status("large")["replicas"], "the pod")
    models.team.apply(quota(pods="0"))  # its successor is refused
    models.tells(
        "large",
        PROGRESSING,
        "True",
        Reason.EVICTED,
        re.compile(r'Usage of EmptyDir volume "models" exceeds the limit "64Ki"\..*'),
    )
    models.tells("large", SERVABLE, "False", Reason.NO_ENDPOINT, "No endpoint answers.")
    models.profile("narrow", cache={"emptyDir": {"sizeLimit": "64Mi"}})
    models.team("delete", "resourcequota", "tight")
    models.tells("large", SERVABLE, "True", Reason.AVAILABLE, re.compile("1 of .*"))
