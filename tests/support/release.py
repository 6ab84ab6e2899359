"""An installed release of the chart, and the one that `make deploy` installs."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import Any

import yaml

from pumas_crds.vocabulary import API_VERSION
from support.cluster import ROOT, Kubectl

#: What `make deploy` may take when nothing is there yet but the base image; its own limits are lower.
DEPLOY_SECONDS = 900
#: A profile for tests: small pods, and whatever file server the tests run.
LAB = "lab"


@dataclass(frozen=True)
class Release:
    """Names in a release; another one in another namespace differs in all of them."""

    name: str = "pumas"
    namespace: str = "pumas-system"

    @property
    def fullname(self) -> str:
        """What the names of all its objects begin with."""
        return self.name if "pumas" in self.name else f"{self.name}-pumas"

    @property
    def operator(self) -> str:
        return f"{self.fullname}-operator"

    @property
    def router(self) -> str:
        return f"{self.fullname}-router"

    @property
    def url(self) -> str:
        """Where pods of other namespaces find the API."""
        return f"http://{self.router}.{self.namespace}.svc"

    def direct_url(self) -> str:
        """The API from the machine of the tests; with the cluster of `make cluster` alone."""
        spec = self.kubectl.get("service", self.router)["spec"]
        return f"http://{spec['clusterIP']}:{spec['ports'][0]['port']}"

    @property
    def kubectl(self) -> Kubectl:
        """kubectl in the release's namespace."""
        return Kubectl(self.namespace)

    def wait(self, seconds: float = 120) -> None:
        """Until operator and router are rolled out."""
        for name in (self.operator, self.router):
            self.kubectl("rollout", "status", f"deployment/{name}", f"--timeout={seconds:g}s")


def worker_image() -> str:
    """The image of serving pods by the chart's defaults, which has Python for the tests' own pods."""
    values: dict[str, Any] = yaml.safe_load((ROOT / "charts/pumas/values.yaml").read_text("utf-8"))
    image: str = values["workerImage"]
    return image


def namespace(name: str) -> dict[str, Any]:
    """A namespace that admits nothing but what the level `restricted` allows."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": labels},
    }


def deploy(release: Release) -> str:
    """`make deploy` into a restricted namespace, and the profile `lab`; what went wrong, if anything."""
    Kubectl().apply(namespace(release.namespace))
    done = subprocess.run(
        ["make", "--no-print-directory", "deploy"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEPLOY_SECONDS,
        check=False,
    )
    if done.returncode:
        return f"make deploy: {done.stdout}{done.stderr}"
    release.wait()
    return ""


def served_model(name: str, **spec: Any) -> dict[str, Any]:
    """A ServedModel of the tests' profile, unless the spec names another."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ServedModel",
        "metadata": {"name": name},
        "spec": {"profile": LAB} | spec,
    }


def lab_profile(hosts: list[str]) -> dict[str, Any]:
    """The profile that models of the tests name: files from these hosts, and small pods."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ServingProfile",
        "metadata": {"name": LAB},
        "spec": {
            "allowedSourceHosts": hosts,
            "resources": {
                "requests": {"cpu": "100m", "memory": "128Mi"},
                "limits": {"memory": "256Mi"},
            },
            "drainSeconds": 5,
        },
    }
