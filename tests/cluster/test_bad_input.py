"""What nobody should write: refused with a sentence that names the field, or harmless."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pumas_crds.vocabulary import ConditionType, Reason
from support.cluster import ROOT, Kubectl
from support.models_server import HOST, ModelsServer
from support.release import Release
from support.team_models import TeamModels

INVALID = ROOT / "crds" / "examples" / "invalid"
ACCEPTED, SERVABLE = ConditionType.ACCEPTED, ConditionType.SERVABLE
#: Where the API server says it in other words than the example's first line.
OTHERWISE = {
    "bad-task": 'spec.task: Unsupported value: "text-genration"',
    "misspelt-source": 'unknown field "spec.sorce"',
    "no-name": "name or generateName is required",
    "profile-variable-twice": "spec.env[1]: Duplicate value",
}


def words(path: Path) -> str:
    """The field or the sentence by which an example says that it is refused."""
    told = path.read_text("utf-8").splitlines()[0].removeprefix("# refused: ")
    field, _, sentence = told.partition(": ")
    if sentence.startswith("Value error, "):
        return sentence.removeprefix("Value error, ")
    return re.sub(r"\.(\d+)", r"[\1]", field) if field.startswith("spec.") else told


@pytest.mark.budget(60)
def test_every_invalid_example_is_refused_by_name(deployed: Release) -> None:
    paths = sorted(INVALID.glob("*.yaml"))
    assert len(paths) > 40
    files = [f"--filename={path}" for path in paths]
    said = Kubectl().attempt(
        "create", "--dry-run=server", "--validate=strict", "--output=name", *files
    )
    assert said.stdout == "", "nothing is let in"
    # kubectl begins each fault with the file that it is about.
    pieces = re.split(r'(?:error|Error)[^"\n]* when creating "([^"]+)": ', said.stderr)
    faults = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    for path in paths:
        assert OTHERWISE.get(path.stem, words(path)) in faults[str(path)]


#: What shells, YAML, logs and Kubernetes itself would each make something of.
HOSTILE = "$(POD_IP)$$'\";|&`id`<>{}*\\ ü\u2028\u202e%0a"


@pytest.mark.budget(120)
def test_hostile_strings_stay_strings(
    models: TeamModels, models_server: ModelsServer, deployed: Release
) -> None:
    forged = "line\n2026-01-01 00:00:00,000 INFO pumas_operator: forged"
    hub = models.profile(
        "hub",
        allowedSourceHosts=[HOST],
        env=[{"name": "HF_ENDPOINT", "value": f"http://{HOST}/status/404"}],
    )
    odd_url = models_server.url("tiny-embed.gguf") + "?$(POD_IP)$$'\";|&`id`<>{}*ü%0a"
    models.team.apply(
        models.body(
            "odd",
            source={"http": {"url": odd_url}},
            catalogue={"displayName": forged, "family": HOSTILE, "aliases": [HOSTILE, forged]},
            engine={"chatTemplate": "$(POD_IP) $$ {{ '\n' }} " + HOSTILE},
        ),
        models.body(
            "hub",
            profile=hub,
            source={"huggingFace": {"repo": "org/model", "file": HOSTILE + ".gguf"}},
        ),
        models.body(
            "claim",
            source={"persistentVolumeClaim": {"claimName": "absent", "path": HOSTILE + "/m.gguf"}},
        ),
    )
    unreachable = re.compile(
        r"\$\(POD_IP\).* cannot be fetched: the server does not have it \(404\)"
    )
    models.tells("hub", ACCEPTED, "False", Reason.SOURCE_UNREACHABLE, unreachable)
    models.tells("odd", SERVABLE, "True", Reason.AVAILABLE, "1 of 1 pods answer.")
    models.told("claim", ACCEPTED, "Unknown", Reason.INSPECTING, re.compile(".*not found.*"))
    said = "".join(models.messages())
    assert said.isprintable() and "\u202e" not in said

    pods = models.team.get("pods")["items"]
    assert {pod["metadata"]["annotations"]["serving.pumas.dev/model-name"] for pod in pods} == {
        *("odd", "hub", "claim")
    }
    for pod in pods:
        assert re.fullmatch(r"[\w./-]*", "".join(pod["metadata"]["labels"].values()))
        spec = pod["spec"]
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            program, module, name, verb = container["command"]
            assert (program, module, name) == ("python", "-m", "pumas_server.worker")
            assert verb in ("fetch", "inspect", "serve") and "args" not in container
            values = {each["name"]: each.get("value", "") for each in container["env"]}
            # Kubernetes would expand `$(NAME)`, so that no dollar reaches it.
            assert not [name for name, value in values.items() if "$" in value]
            json.loads(values["PUMAS_WORKER"])
    logs = [
        deployed.kubectl("logs", f"deployment/{deployed.operator}", "--since=120s"),
        models.team("logs", "deployment/odd-serving", "--all-containers"),
    ]
    for log in logs:
        lines = log.splitlines()
        assert not [line for line in lines if line.startswith("2026-01-01") or "\u202e" in line]
    # A line of the operator begins with its time, or belongs to a traceback, of which there is none.
    assert all(re.match(r"\d{4}-\d\d-\d\d ", line) for line in logs[0].splitlines())
