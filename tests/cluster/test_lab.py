"""The test cluster does what a cluster does: it runs pods, routes Services, schedules GPUs, takes images."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
import uuid
from typing import Any

import pytest

from support.cluster import DATA, ROOT, SCRIPTS, Kubectl, script, soon

RESTRICTED = {
    "runAsNonRoot": True,
    "readOnlyRootFilesystem": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


def pod(name: str, **container: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "only", "imagePullPolicy": "IfNotPresent", **container}],
        },
    }


def condition(kubectl: Kubectl, name: str, kind: str) -> dict[str, str]:
    conditions = kubectl.get("pod", name)["status"].get("conditions", [])
    return next((c for c in conditions if c["type"] == kind), {})


def test_the_nodes_are_ready(cluster: Kubectl) -> None:
    ready = {
        node["metadata"]["name"]: c["status"]
        for node in cluster.get("nodes")["items"]
        for c in node["status"]["conditions"]
        if c["type"] == "Ready"
    }
    assert ready and set(ready.values()) == {"True"}


def test_a_pod_answers_through_its_service_by_name(kubectl: Kubectl) -> None:
    serve = "mkdir /tmp/www && echo 'it answers' > /tmp/www/index.html && exec httpd -f -p 8080 -h /tmp/www"
    probe = {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    kubectl.apply(
        pod("web", image="busybox:1", command=["sh", "-c", serve], readinessProbe=probe),
        service,
        pod("client", image="busybox:1", command=["sleep", "600"]),
    )
    kubectl("wait", "--for=condition=Ready", "pod/web", "pod/client", "--timeout=60s")
    fetch = [
        "exec",
        "client",
        "--",
        "wget",
        "-qO-",
        f"http://web.{kubectl.namespace}.svc.cluster.local/",
    ]
    answer = soon(lambda: kubectl.attempt(*fetch).stdout, "an answer of the Service")
    assert answer == "it answers\n"


def test_gpus_are_given_out_and_one_too_many_is_unschedulable(kubectl: Kubectl) -> None:
    nodes = kubectl.get("nodes")["items"]
    gpus = max(int(node["status"]["allocatable"].get("nvidia.com/gpu", 0)) for node in nodes)
    assert gpus >= 1
    limits = {"limits": {"nvidia.com/gpu": 1}}
    show = ["sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES"]
    impossible = {"limits": {"nvidia.com/gpu": 1000}}
    kubectl.apply(
        pod("one", image="busybox:1", command=show, resources=limits),
        pod("toomany", image="busybox:1", command=show, resources=impossible),
    )
    why = soon(
        lambda: condition(kubectl, "toomany", "PodScheduled").get("message"),
        "a verdict of the scheduler",
    )
    assert condition(kubectl, "toomany", "PodScheduled")["reason"] == "Unschedulable"
    assert "Insufficient nvidia.com/gpu" in why
    kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/one", "--timeout=60s")
    assert kubectl("logs", "one").strip() != ""


@pytest.mark.budget(300)  # the first time, the base image is made
def test_an_image_is_built_without_a_registry_and_runs_as_nobody(kubectl: Kubectl) -> None:
    greeting = f"hello-{uuid.uuid4().hex[:8]}"
    name = "localhost/sample:test"
    sample = SCRIPTS / "sample"
    built = script(
        "image-build.sh",
        name,
        str(sample),
        str(sample / "Dockerfile"),
        "--build-arg",
        f"GREETING={greeting}",
    )
    assert built.returncode == 0, built.stdout + built.stderr
    kubectl.apply(pod("greeting", image=name, securityContext=RESTRICTED))
    kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/greeting", "--timeout=60s")
    assert kubectl("logs", "greeting") == f"{greeting} uid=65532 python=3.11\n"


@pytest.mark.own_cluster
def test_what_a_service_account_asks_and_is_denied_is_in_the_audit_log(kubectl: Kubectl) -> None:
    token = kubectl("create", "token", "default").strip()
    url = f"https://127.0.0.1:6443/api/v1/namespaces/{kubectl.namespace}/secrets"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    authority = ssl.create_default_context(cafile=str(DATA / "keys" / "ca.crt"))
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, context=authority)
    refused.value.close()

    def entry() -> dict[str, Any] | None:
        lines = (DATA / "log" / "audit.log").read_text("utf-8").splitlines()
        entries = (json.loads(line) for line in lines if kubectl.namespace in line)
        return next((e for e in entries if e["objectRef"]["resource"] == "secrets"), None)

    found = soon(entry, "an entry in the audit log")
    assert found["user"]["username"] == f"system:serviceaccount:{kubectl.namespace}:default"
    assert (found["verb"], found["responseStatus"]["code"]) == ("list", 403)


@pytest.mark.own_cluster
@pytest.mark.xdist_group("processes")
def test_bringing_it_up_again_is_quick_and_restarts_nothing(cluster: Kubectl) -> None:
    before = {path.name: path.read_text() for path in (DATA / "run").glob("*.pid")}
    assert len(before) >= 10
    script("up.sh")  # what it does to a process may show a moment later: by the next time
    again = script("up.sh")
    assert again.returncode == 0, again.stderr
    assert (
        again.stdout.splitlines()[-1]
        == f"export KUBECONFIG={ROOT}/.cache/kube/data/admin.kubeconfig"
    )
    assert {path.name: path.read_text() for path in (DATA / "run").glob("*.pid")} == before
