"""The pods of the chart: how they are confined, started, watched and stopped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from support.helm import ALL_VALUES, Object, Rendered, of_kind, pods, render
from support.pod_security import containers, violations

EVERY = ("-f", str(ALL_VALUES))
SCOPED = ("--set", "watchNamespaces={team-a,team-b}")
SCALED = ("--set", "router.autoscaling.enabled=true")


@pytest.fixture(scope="module", params=[(), EVERY, SCOPED], ids=["default", "every", "scoped"])
def objects(request: pytest.FixtureRequest) -> Sequence[Rendered]:
    """The chart's objects, of each install in turn."""
    return render(*request.param)


def test_pods_are_restricted(objects: Sequence[Rendered]) -> None:
    found = pods(objects)
    assert len(found) == 3
    for pod in found.values():
        assert violations(pod["spec"]) == []
        for container in containers(pod["spec"]):
            assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_the_restricted_level_can_refuse() -> None:
    spec: Object = {
        "hostNetwork": True,
        "volumes": [{"name": "node", "hostPath": {"path": "/"}}],
        "containers": [{"name": "c", "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}],
    }
    assert violations(spec) == [
        "hostNetwork is true",
        "volume node is of type hostPath",
        "c may escalate privileges",
        "c may run as root",
        "c has no seccomp profile",
        "c keeps capabilities",
        "c adds capabilities",
    ]


def test_what_the_processes_are_told() -> None:
    found = {
        name: {each["name"]: _value(each) for each in pod["spec"]["containers"][0]["env"]}
        for name, pod in pods(render(*SCOPED)).items()
    }
    ours = "app.kubernetes.io/part-of=pumas-serving,app.kubernetes.io/instance=pumas"
    shared = {
        "PUMAS_NAMESPACE": "metadata.namespace",
        "PUMAS_WATCH_NAMESPACES": "team-a,team-b",
        "PUMAS_KEY_SECRET_FILE": "/etc/pumas/key/key",
        "PUMAS_PROPAGATION_SECONDS": "5",
    }
    assert found == {
        "pumas-operator": shared | {"PUMAS_WORKER_IMAGE": "localhost/pumas-worker:0.1.0"},
        "pumas-router": shared
        | {
            "PUMAS_PORT": "8080",
            "PUMAS_MAX_IN_FLIGHT": "1024",
            "PUMAS_MODEL_SHARE": "0.5",
            "PUMAS_MAX_CONNECTIONS": "16384",
            "PUMAS_EXTERNAL_IN_FLIGHT": "64",
            "PUMAS_IMAGE_PERMITS": "2",
            "PUMAS_BUFFER_BYTES": "268435456",
            "PUMAS_DRAIN_SECONDS": "10",
            "PUMAS_MODEL_MANAGEMENT": "false",
        },
        "pumas-profiles": {
            "PUMAS_NAMESPACE": "metadata.namespace",
            "PUMAS_PROFILE_SELECTOR": ours,
        },
    }


def test_large_numbers_are_told_in_digits_and_a_yes_in_letters() -> None:
    pod = pods(render(*EVERY))["ours-router"]
    told = {each["name"]: _value(each) for each in pod["spec"]["containers"][0]["env"]}
    assert told["PUMAS_MAX_IN_FLIGHT"] == "1000000"
    assert told["PUMAS_MODEL_MANAGEMENT"] == "true"
    assert told["PUMAS_BUFFER_BYTES"] == "1073741824"


def test_the_key_is_a_file_of_the_secret(objects: Sequence[Rendered]) -> None:
    secrets = of_kind(objects, "Secret")
    for deployment in of_kind(objects, "Deployment").values():
        pod = deployment["spec"]["template"]
        container = pod["spec"]["containers"][0]
        told = {each["name"]: _value(each) for each in container["env"]}
        [mount] = [each for each in container["volumeMounts"] if each["name"] == "key"]
        [volume] = [each for each in pod["spec"]["volumes"] if each["name"] == "key"]
        [item] = volume["secret"]["items"]
        assert told["PUMAS_KEY_SECRET_FILE"] == f"{mount['mountPath']}/{item['path']}"
        assert mount["readOnly"] is True
        # Root's, and readable by the pod's group.
        assert volume["secret"]["defaultMode"] == 0o440
        assert pod["spec"]["securityContext"]["fsGroup"] == 65532
        name = volume["secret"]["secretName"]
        assert name == "our-key" if not secrets else item["key"] in secrets[name]["data"]


def test_commands_and_probes(objects: Sequence[Rendered]) -> None:
    found = {
        pod["metadata"]["labels"]["app.kubernetes.io/name"]: pod for pod in pods(objects).values()
    }
    operator, router = (
        found[f"pumas-{name}"]["spec"]["containers"][0] for name in ("operator", "router")
    )
    assert operator["command"] == ["python", "-m", "pumas_operator"]
    assert router["command"] == ["python", "-m", "pumas_server.router"]
    assert [_path(each, "readinessProbe") for each in (operator, router)] == ["/healthz", "/readyz"]
    for container in (operator, router):
        [port] = container["ports"]
        assert port["containerPort"] == 8080
        assert _path(container, "livenessProbe") == _path(container, "startupProbe") == "/healthz"
        assert container["livenessProbe"]["httpGet"]["port"] == port["name"]


@pytest.mark.parametrize(("propagation", "drain"), [(5, 10), (0, 0), (300, 86400)])
def test_the_grace_period_covers_a_whole_stop(propagation: int, drain: int) -> None:
    arguments = ("--set", f"propagationSeconds={propagation},router.drainSeconds={drain}")
    spec = pods(render(*arguments))["pumas-router"]["spec"]
    assert spec["terminationGracePeriodSeconds"] >= propagation + drain + 5


def test_an_autoscaler_decides_alone() -> None:
    fixed, scaled = render(), render(*SCALED)
    assert of_kind(fixed, "Deployment")["pumas-router"]["spec"]["replicas"] == 2
    assert "replicas" not in of_kind(scaled, "Deployment")["pumas-router"]["spec"]
    scaler = of_kind(scaled, "HorizontalPodAutoscaler")["pumas-router"]["spec"]
    assert scaler["scaleTargetRef"]["name"] == "pumas-router"
    assert of_kind(fixed, "HorizontalPodAutoscaler") == {}


def _value(variable: dict[str, Any]) -> str:
    if "valueFrom" in variable:
        path: str = variable["valueFrom"]["fieldRef"]["fieldPath"]
        return path
    value = variable["value"]
    assert isinstance(value, str)
    return value


def _path(container: Object, probe: str) -> str:
    path: str = container[probe]["httpGet"]["path"]
    return path
