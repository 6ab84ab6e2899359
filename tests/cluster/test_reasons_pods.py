"""What keeps pods from serving: the scheduler's, the kubelet's and the engine's own sentences.

Most causes stand in a profile, so that an administrator mends them and nobody touches a model.
"""

from __future__ import annotations

import re

import pytest

from pumas_crds.vocabulary import ConditionType, Reason
from support.cluster import Kubectl
from support.models_server import LONG, UNKNOWN_FAMILY, ModelsServer
from support.pod_processes import kill
from support.serving_truth import serving_pods
from support.team_models import Json, TeamModels

ACCEPTED, PROGRESSING = ConditionType.ACCEPTED, ConditionType.PROGRESSING
SERVABLE = ConditionType.SERVABLE
#: As the system keeps a command line.
SUPERVISOR = "pumas_server.worker\0serve"
ONE_ANSWERS = "1 of 1 pods answer."
NOT_INSPECTED = "The file was not inspected yet. "
SMALL = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}


def with_gpus(count: int) -> Json:
    return {**SMALL, "limits": SMALL["limits"] | {"nvidia.com/gpu": str(count)}}


def held_up(models: TeamModels, name: str, reason: Reason, text: re.Pattern[str]) -> None:
    """The inspection waits, and says for what."""
    models.tells(name, PROGRESSING, "True", reason, text)
    more = re.compile(re.escape(NOT_INSPECTED) + text.pattern)
    models.tells(name, ACCEPTED, "Unknown", Reason.INSPECTING, more)
    models.tells(name, SERVABLE, "False", Reason.NO_ENDPOINT, "No endpoint answers.")


def serves(models: TeamModels, name: str) -> None:
    models.tells(
        name, PROGRESSING, "False", Reason.ROLLED_OUT, "Every pod of this generation is ready."
    )
    models.tells(name, SERVABLE, "True", Reason.AVAILABLE, ONE_ANSWERS)
    assert "error" not in models.status(name)


@pytest.mark.budget(240)
def test_where_no_node_takes_the_pod(models: TeamModels, models_server: ModelsServer) -> None:
    greedy = models.profile("greedy", resources=with_gpus(64))
    modest = models.profile("modest", resources=with_gpus(1))
    source = models_server.source("tiny-embed.gguf")
    local = models.profile("local", allowedHostPaths=["/srv/models"])
    absent = {"persistentVolumeClaim": {"claimName": "absent", "path": "m.gguf"}}
    unbound = {"persistentVolumeClaim": {"claimName": "unbound", "path": "m.gguf"}}
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "unbound"},
        "spec": {
            "storageClassName": "no-such-class",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    models.team.apply(
        claim,
        models.body("greedy", profile=greedy, source=source),
        models.body("modest", profile=modest, source=source),
        models.body("absent", source=absent),
        models.body("node", profile=local, source={"path": "/srv/models/tiny-embed.gguf"}),
        models.body("unbound", source=unbound),
    )
    models.tells(
        "greedy",
        PROGRESSING,
        "True",
        Reason.UNSCHEDULABLE,
        re.compile(r"0/1 nodes are available: 1 Insufficient nvidia\.com/gpu\. .*"),
    )
    # The file is good, and nothing but a node is missing.
    models.tells(
        "greedy", ACCEPTED, "True", Reason.ACCEPTED, "The file was inspected and can be served."
    )
    assert models.status("greedy")["loadState"] == "loading"
    held_up(
        models,
        "absent",
        Reason.UNSCHEDULABLE,
        re.compile(r'.*persistentvolumeclaim "absent" not found.*'),
    )
    held_up(
        models,
        "unbound",
        Reason.UNSCHEDULABLE,
        re.compile(r'.*storageclass\.storage\.k8s\.io "no-such-class" not found.*'),
    )
    held_up(
        models,
        "node",
        Reason.REPLICA_FAILURE,
        re.compile(
            r'.* violates PodSecurity "restricted:latest": .* "source" uses .* "hostPath".*'
        ),
    )
    serves(models, "modest")
    [pod] = models.team.get(
        "pods", "--selector=app.kubernetes.io/instance=modest,app.kubernetes.io/name=pumas-worker"
    )["items"]
    assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert pod["spec"]["initContainers"][0]["resources"]["limits"] == {"memory": "256Mi"}
    models.profile("greedy", resources=SMALL)
    serves(models, "greedy")


@pytest.mark.budget(240)
def test_where_the_kubelet_cannot_run_the_pod(
    models: TeamModels, models_server: ModelsServer
) -> None:
    source = models_server.source("tiny-embed.gguf")
    image = models.profile("image", images={"llama.cpp": "localhost/no-such-image:1"})
    bundle = models.profile("bundle", caBundle={"name": "authorities"})
    locked = models.profile("locked", cache={"persistentVolumeClaim": {"claimName": "locked"}})
    volume, claim = read_only_for_us(models.team)
    try:
        models.team.apply(
            volume,
            claim,
            models.body("image", profile=image, source=source),
            models.body("bundle", profile=bundle, source=source),
            models.body("locked", profile=locked, source=source),
        )
        held_up(
            models,
            "image",
            Reason.IMAGE_PULL_BACK_OFF,
            re.compile(r'.*"localhost/no-such-image:1".*'),
        )
        held_up(
            models,
            "bundle",
            Reason.CREATE_CONTAINER_CONFIG_ERROR,
            re.compile(
                r'MountVolume\.SetUp failed for volume "ca" : configmap "authorities" not found'
            ),
        )
        models.tells(
            "locked",
            PROGRESSING,
            "True",
            Reason.FETCH_FAILED,
            "tiny-embed.gguf cannot be put into the cache: Permission denied",
        )
        models.profile("image", images={})
        models.team("create", "configmap", "authorities", "--from-literal=ca.crt=")
        serves(models, "image")
        serves(models, "bundle")
    finally:
        Kubectl()("delete", "pv", volume["metadata"]["name"], "--wait=false")


def read_only_for_us(team: Kubectl) -> tuple[Json, Json]:
    """A volume that belongs to root, and its claim."""
    name = f"locked-{team.namespace}"
    size = {"storage": "1Gi"}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": size,
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": name,
            "hostPath": {"path": "/usr/lib"},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "locked"},
        "spec": {
            "storageClassName": name,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": size},
        },
    }
    return volume, claim


@pytest.mark.budget(240)
def test_where_the_engine_does_not_run(models: TeamModels, models_server: ModelsServer) -> None:
    broken = models.profile(
        "broken", env=[{"name": "LLAMA_SERVER_BIN", "value": "/usr/bin/no-such-engine"}]
    )
    source = models_server.source("tiny-embed.gguf")
    models.team.apply(
        models.body("family", source=models_server.source(UNKNOWN_FAMILY)),
        models.body("program", profile=broken, source=source),
        models.body(
            "memory",
            source=models_server.source(LONG),
            engine={
                "contextTokens": 32768,
                "parallel": 256,
                "cacheTypeK": "f32",
                "cacheTypeV": "f32",
            },
        ),
        models.body("flag", source=source, engine={"extraArgs": ["--rope-scaling=no-such-way"]}),
    )
    models.tells(
        "family",
        PROGRESSING,
        "True",
        Reason.ENGINE_FAILED,
        re.compile(".*unknown model architecture: 'tiny'.*"),
    )
    models.tells(
        "family", ACCEPTED, "True", Reason.ACCEPTED, "The file was inspected and can be served."
    )
    assert models.status("family")["loadState"] == "failed"
    models.tells(
        "program",
        PROGRESSING,
        "True",
        Reason.ENGINE_FAILED,
        "The pod cannot serve: LLAMA_SERVER_BIN names no program that can be run here.",
    )
    models.tells(
        "memory",
        PROGRESSING,
        "True",
        Reason.OOM_KILLED,
        re.compile(
            "The (engine used more memory than it may|serving container used more memory than its limit)"
            " and was ended."
        ),
    )
    models.tells(
        "flag",
        PROGRESSING,
        "True",
        Reason.ENGINE_FAILED,
        "The engine ended with exit code 2: argument --rope-scaling: invalid choice: 'no-such-way'"
        " (choose from 'none', 'linear', 'yarn').",
    )
    models.profile("broken", env=[])
    serves(models, "program")
    models.patch("memory", engine=None)
    serves(models, "memory")


@pytest.mark.own_cluster
@pytest.mark.budget(180)
def test_a_container_that_ends_without_a_word(
    models: TeamModels, models_server: ModelsServer
) -> None:
    """Our programs say why they end; of one that could not, its ends are all there is to tell."""
    no_engine = models.profile("idle", env=[{"name": "LLAMA_SERVER_BIN", "value": "/bin/true"}])
    source = models_server.source("tiny-embed.gguf")
    models.team.apply(models.body("silent", profile=no_engine, source=source))
    models.tells("silent", PROGRESSING, "True", Reason.ENGINE_FAILED, re.compile(".*"))
    [uid] = serving_pods(models.team)
    # The first time it is started again at once, the second time it has to wait.
    for _ in range(2):
        kill(uid, SUPERVISOR)
    models.tells(
        "silent",
        PROGRESSING,
        "True",
        Reason.CRASH_LOOP_BACK_OFF,
        "The serving container ended with exit code 137.",
    )
    models.profile("idle", env=[])
    serves(models, "silent")


@pytest.mark.budget(240)
def test_every_station_of_an_ordinary_life(models: TeamModels, models_server: ModelsServer) -> None:
    models.team.apply(models.body("ordinary", source=models_server.source("tiny-embed.gguf")))
    name = "ordinary"
    models.told(name, ACCEPTED, "Unknown", Reason.INSPECTING, "The file was not inspected yet.")
    inspecting = "The file is inspected before a pod is made."
    models.told(name, PROGRESSING, "True", Reason.INSPECTING, inspecting)
    starting = "The pod gets its file ready and starts the engine."
    models.told(name, PROGRESSING, "True", Reason.STARTING, starting)
    models.told(name, SERVABLE, "False", Reason.NO_ENDPOINT, "No endpoint answers.")
    serves(models, name)
    models.patch(name, suspend=True)
    suspended = "The model is suspended (spec.suspend)."
    models.told(
        name, PROGRESSING, "True", Reason.DRAINING, "Running calls finish before the pods end."
    )
    models.tells(name, PROGRESSING, "False", Reason.SUSPENDED, suspended)
    models.tells(name, ConditionType.READY, "True", Reason.SUSPENDED, suspended)
    models.tells(name, SERVABLE, "False", Reason.SUSPENDED, suspended)
    models.patch(name, suspend=None, replicas=0)
    models.tells(name, PROGRESSING, "False", Reason.SCALED_TO_ZERO, "No pod is wanted.")
    models.tells(name, SERVABLE, "False", Reason.SCALED_TO_ZERO, "No pod is wanted.")
    models.team("scale", "sm/ordinary", "--replicas=1")
    serves(models, name)
    states = [body.get("status", {}).get("loadState", "") for body in models.seen(name)]
    changes = [state for at, state in enumerate(states) if at == 0 or states[at - 1] != state]
    assert changes == [
        *("", "requested", "loading", "loaded"),
        *("unloading", "unloaded"),
        *("requested", "loading", "loaded"),
    ]
