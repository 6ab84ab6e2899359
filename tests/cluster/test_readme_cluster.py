"""README's commands for a cluster do what it says, with a mirror in the place of the hub."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from support.cluster import STATE, Kubectl, kubectl_environment
from support.models_server import HOST, ModelsServer
from support.readme import ROOT, missing, section, steps
from support.release import Release

STEPS = steps(section((ROOT / "README.md").read_text(), "On Kubernetes"))
MIRROR = {
    "allowedSourceHosts": [HOST],
    "env": [{"name": "HF_ENDPOINT", "value": f"http://{HOST}/hub"}],
}


def test_it_takes_two_commands_to_install_and_three_to_the_first_answer() -> None:
    verbs = [step.command.split()[:2] for step in STEPS]
    assert verbs[:2] == [["make", "cluster"], ["make", "deploy"]]
    assert verbs[2:5] == [["kubectl", "apply"], ["kubectl", "wait"], ["kubectl", "create"]]


@pytest.mark.budget(150)
def test_the_commands_print_what_is_shown(deployed: Release, models_server: ModelsServer) -> None:
    profile = ("servingprofile", "default", "--type=merge")
    environment = kubectl_environment()
    environment["PATH"] = f"{STATE / 'bin'}{os.pathsep}{environment['PATH']}"
    deployed.kubectl("patch", *profile, "-p", json.dumps({"spec": MIRROR}))
    try:
        for step in STEPS:
            done = subprocess.run(
                ["bash", "-c", step.command],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                timeout=120,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            line = missing(step.shown, done.stdout)
            assert line is None, f"`{step.command}` did not print {line!r}, but {done.stdout!r}"
    finally:
        Kubectl()("delete", "servedmodel", "smollm2", "--ignore-not-found")
        nothing = dict.fromkeys(MIRROR)
        deployed.kubectl("patch", *profile, "-p", json.dumps({"spec": nothing}))
