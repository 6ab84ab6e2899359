"""What the API server says of each object that the chart renders, without keeping any of them.

Left out is the ServiceMonitor, whose definition belongs to the Prometheus operator.
"""

from __future__ import annotations

import json

import pytest

from support.cluster import Kubectl
from support.helm import ALL_VALUES, CHART, render
from support.release import Release

EVERY = ("-f", str(ALL_VALUES))
#: What the values of the fixture switch off is on here.
ALL_OF_IT = (
    "crds.install=true",
    "networkPolicy.enabled=true",
    "router.serviceMonitor.enabled=false",
)
OPTIONAL = "router.autoscaling.enabled=true"


def settings(*values: str) -> list[str]:
    return [part for value in values for part in ("--set", value)]


@pytest.mark.parametrize("install", ["default", "every value", "namespaces"])
def test_every_object_is_accepted(deployed: Release, kubectl: Kubectl, install: str) -> None:
    here = kubectl.namespace
    arguments = {
        "default": settings(OPTIONAL),
        "every value": [*EVERY, *settings(*ALL_OF_IT, f"watchNamespaces={{{here}}}")],
        "namespaces": settings(f"watchNamespaces={{{here}}}"),
    }[install]
    objects = render("--namespace", here, *arguments, release="accepted")
    said = kubectl(
        *("apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict"),
        *("--output=name", "--filename=-"),
        stdin="---\n".join(json.dumps(each.object) + "\n" for each in objects),
    )
    assert len(said.splitlines()) == len(objects)
    assert {"Deployment", "Role", "PodDisruptionBudget", "NetworkPolicy"} <= {
        each.kind for each in objects
    }
    if install != "namespaces":
        assert "horizontalpodautoscaler.autoscaling" in said
    assert kubectl.get("deployments,services,roles,secrets")["items"] == []


def test_a_field_that_the_api_server_does_not_know_would_be_found(
    deployed: Release, kubectl: Kubectl
) -> None:
    [budget] = [each.object for each in render() if each.kind == "PodDisruptionBudget"]
    spec = {**budget["spec"], "unhealthyPodEvictionPolicies": "AlwaysAllow"}
    metadata = {**budget["metadata"], "namespace": kubectl.namespace}
    done = kubectl.attempt(
        *("apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename=-"),
        stdin=json.dumps({**budget, "metadata": metadata, "spec": spec}),
    )
    assert done.returncode != 0
    assert "unhealthyPodEvictionPolicies" in done.stderr


def test_every_template_is_among_them() -> None:
    there = {
        str(path.relative_to(CHART / "templates")) for path in CHART.rglob("templates/**/*.yaml")
    }
    rendered = {
        each.template
        for each in (*render(*settings(OPTIONAL)), *render(*EVERY, *settings(*ALL_OF_IT)))
    }
    assert there - rendered == {"router/servicemonitor.yaml"}
