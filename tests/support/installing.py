"""Installing by hand on the test cluster: Helm, the commands of docs/install.md, and their traces."""

from __future__ import annotations

import json
import os
import re
import subprocess

import yaml

from support.cluster import ROOT, STATE, Kubectl, foreign, kubectl_environment, soon
from support.helm import CHART

SECONDS = 180
#: Released before the one that is being worked on: made by previous-chart.sh.
PREVIOUS = ROOT / "tests" / "cluster" / "previous-chart.tgz"
#: On all that the project makes in a cluster.
OURS = "app.kubernetes.io/part-of=pumas-serving"
CRDS = ("servedmodels.serving.pumas.dev", "servingprofiles.serving.pumas.dev")
_COMMAND = re.compile(r"^    ((?:helm|kubectl) .*)$", re.MULTILINE)


def documented() -> list[str]:
    """Commands of docs/install.md that act on a cluster, in order."""
    return _COMMAND.findall((ROOT / "docs" / "install.md").read_text("utf-8"))


def the_documented(text: str) -> str:
    """The only one of them with that text in it."""
    [command] = [each for each in documented() if text in each]
    return command


def attempt(command: str) -> subprocess.CompletedProcess[str]:
    """Run a line of shell in the checkout as somebody would who works with the cluster."""
    environment = kubectl_environment()
    if not foreign():
        environment["PATH"] = f"{STATE / 'bin'}{os.pathsep}{environment['PATH']}"
    return subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def run(command: str) -> str:
    """The same; a failure fails the test with what was said."""
    done = attempt(command)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def present_images() -> str:
    """Options of Helm for the images that are in the cluster, whichever chart it installs."""
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    return f"--set image={values['image']} --set workerImage={values['workerImage']}"


def remove_everything() -> None:
    """Every release of the chart, every model and every profile of the cluster."""
    for each in json.loads(run("helm list --all --all-namespaces --output json")):
        if each["chart"].startswith("pumas-"):
            run(f"helm uninstall {each['name']} --namespace {each['namespace']} --wait")
    Kubectl()("delete", "crd", "--ignore-not-found", *CRDS)
    soon(lambda: not remains("pods"), "no pod of ours")


def remains(*kinds: str) -> list[str]:
    """What the cluster still has of ours: of these kinds, or else of any kind."""
    kubectl = Kubectl()
    every = ("api-resources", "--verbs=list", "--output=name")
    wanted = ",".join(kinds or kubectl(*every).split())
    return kubectl("get", wanted, "-A", f"--selector={OURS}", "--output=name").split()
