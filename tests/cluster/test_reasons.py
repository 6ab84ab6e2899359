"""Refusals, each with the sentence that a team reads: of a spec, of a name, of a file.

None needs a pod that serves, and each passes by itself when its cause does.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from pumas_crds.vocabulary import ConditionType, Reason
from support.client_pod import ClientPod
from support.cluster import Kubectl, soon
from support.models_server import EMPTY, HOST, NOT_A_MODEL, ONNX, ModelsServer
from support.release import LAB, namespace
from support.team_models import TeamModels, team_models

ACCEPTED, PROGRESSING = ConditionType.ACCEPTED, ConditionType.PROGRESSING
READY, SERVABLE = ConditionType.READY, ConditionType.SERVABLE


def refused(models: TeamModels, name: str, reason: Reason, text: str | re.Pattern[str]) -> None:
    """The model is not accepted, and all that follows from that is told with the same words."""
    for kind in (ACCEPTED, PROGRESSING, READY):
        models.tells(name, kind, "False", reason, text)
    status = models.status(name)
    assert status["error"]["reason"] == reason
    assert status["loadState"] == "failed"


def at_zero(models: TeamModels, name: str) -> None:
    """The model could be served, and is asked not to run."""
    models.tells(
        name, ACCEPTED, "True", Reason.ACCEPTED, "The file was inspected and can be served."
    )
    models.tells(name, PROGRESSING, "False", Reason.SCALED_TO_ZERO, "No pod is wanted.")
    assert "error" not in models.status(name)


@pytest.mark.budget(150)
def test_what_release_or_profile_rule_out(models: TeamModels, models_server: ModelsServer) -> None:
    home = models.release.namespace
    narrow = models.profile("narrow", allowedSourceHosts=["huggingface.co"])
    missing = f"missing-{models.team.namespace}"
    source = models_server.source("tiny-chat.gguf")
    elsewhere = {"url": "http://elsewhere.example/v1"}
    models.team.apply(
        models.body("http", profile=narrow, source=source, replicas=0),
        models.body("hub", source={"huggingFace": {"repo": "org/model", "file": "m.gguf"}}),
        models.body("node", source={"path": "/srv/models/tiny-chat.gguf"}),
        models.body("endpoint", runtime="external", endpoint=elsewhere),
        models.body("far", runtime="external", endpoint=elsewhere, profile=narrow),
        models.body("profile", profile=missing, source=source, replicas=0),
    )
    refused(
        models,
        "http",
        Reason.SOURCE_NOT_ALLOWED,
        f"The host of source.http.url is not one of allowedSourceHosts of the profile {narrow}.",
    )
    refused(
        models,
        "hub",
        Reason.SOURCE_NOT_ALLOWED,
        "The hub's host is not one of allowedSourceHosts of the profile lab.",
    )
    refused(
        models,
        "node",
        Reason.SOURCE_NOT_ALLOWED,
        "source.path lies below none of allowedHostPaths of the profile lab.",
    )
    refused(
        models,
        "endpoint",
        Reason.ENDPOINT_NOT_ALLOWED,
        "The host of endpoint.url is not one of allowedEndpointHosts of the profile lab.",
    )
    told = f"There is no ServingProfile named {missing} in the namespace {home}."
    refused(models, "profile", Reason.PROFILE_NOT_FOUND, told)
    models.tells("hub", SERVABLE, "False", Reason.NO_ENDPOINT, "No endpoint answers.")
    assert models.team("get", "pods,jobs,deployments", "--output=name") == ""

    # An administrator mends profiles, and nobody touches a model.
    models.profile("missing")
    models.profile("narrow", allowedSourceHosts=["*"], allowedEndpointHosts=["elsewhere.example"])
    at_zero(models, "profile")
    at_zero(models, "http")
    models.tells("far", ACCEPTED, "True", Reason.ACCEPTED, "The endpoint may be used.")
    models.tells("far", READY, "True", Reason.ROLLED_OUT, "Nothing of ours has to run.")
    models.tells(
        "far", SERVABLE, "Unknown", Reason.NOT_OBSERVED, "Only routers see whether it answers."
    )


@pytest.mark.budget(240)
def test_what_a_file_rules_out(models: TeamModels, models_server: ModelsServer) -> None:
    key = models.team.namespace
    model, source = models.body, models_server.source
    page = source(f"{NOT_A_MODEL}?{key}")
    digest = models_server.digest("tiny-embed.gguf")
    zeros = "0" * 64
    models.team.apply(
        model("page", source=page),
        model("empty", source=source(EMPTY)),
        model("half", source=source("tiny-chat.gguf", "truncated")),
        model("headless", source=source("tiny-rerank-headless.gguf")),
        model("task", source=source("tiny-embed.gguf"), task="text-generation"),
        model("unsized", source=source("tiny-chat.gguf", "no-length")),
        model("digest", source=source("tiny-embed.gguf"), sha256=zeros),
        model(
            "steps",
            runtime="onnxruntime",
            source=source(f"{ONNX}/onnx/model.onnx"),
            engine={"steps": 3},
        ),
        model(
            "odd",
            source=source("tiny-chat.gguf"),
            projector=source("tiny-projector-wide.gguf"),
        ),
        model("late", source=source("tiny-chat.gguf", f"switch/{key}"), replicas=0),
    )
    models.told("page", ACCEPTED, "Unknown", Reason.INSPECTING, "The file was not inspected yet.")
    late = "tiny-chat.gguf cannot be fetched: the server does not have it (404)"
    refused(models, "late", Reason.SOURCE_UNREACHABLE, late)
    models_server.switch(key, on=True)
    refused(
        models,
        "page",
        Reason.NOT_A_MODEL,
        f"{NOT_A_MODEL}: the file does not begin as a GGUF file does",
    )
    refused(
        models,
        "steps",
        Reason.NOT_IMPLEMENTED,
        "engine.steps and engine.guidancePercent are for image pipelines; this model is here to embed",
    )
    refused(
        models,
        "odd",
        Reason.PROJECTOR_MISMATCH,
        "tiny-projector-wide.gguf: the projector gives vectors of 128 values, the model takes 64",
    )
    refused(models, "empty", Reason.NOT_A_MODEL, f"{EMPTY}: it is empty")
    whole = (models_server.folder / "tiny-chat.gguf").stat().st_size
    needed = f"the file has {whole // 2} bytes, but its tensors need {whole}"
    refused(models, "half", Reason.TRUNCATED, f"tiny-chat.gguf: {needed}")
    refused(
        models,
        "headless",
        Reason.MISSING_RANKING_HEAD,
        "tiny-rerank-headless.gguf: the file's pooling is rank, but the file has no ranking head"
        " (tensor cls.output.weight)",
    )
    refused(
        models,
        "task",
        Reason.TASK_MISMATCH,
        "tiny-embed.gguf: the task text-generation is recorded, but the file is an encoder, which"
        " generates no text",
    )
    refused(
        models,
        "unsized",
        Reason.NOT_A_MODEL,
        "tiny-chat.gguf: its server does not say how large it is",
    )
    refused(
        models,
        "digest",
        Reason.DIGEST_MISMATCH,
        f"tiny-embed.gguf has sha256 {digest[:12]}…, not {zeros[:12]}… as the spec says",
    )
    at_zero(models, "late")

    # A verdict that stands is not looked for again, and another source is another question.
    models.team("annotate", "sm", "page", "note=look again")
    models.patch("page", source=source("tiny-chat.gguf"), replicas=0)
    at_zero(models, "page")
    looks = [each for each in models_server.asked(NOT_A_MODEL) if each["path"].endswith(key)]
    assert len(looks) == 1
    models.patch("digest", sha256=digest)
    models.tells("digest", SERVABLE, "True", Reason.AVAILABLE, "1 of 1 pods answer.")


@pytest.mark.budget(150)
def test_a_name_belongs_to_the_oldest(
    models: TeamModels, models_server: ModelsServer, client_pod: ClientPod
) -> None:
    """Across namespaces; the others wait, and the next of them follows when it goes."""
    alias = f"shared-{models.team.namespace}"
    source = models_server.source("tiny-embed.gguf")
    body = models.body("same", alias=alias, source=source, replicas=0)
    sentence = f"Another model is served as {alias} with profile {LAB}."
    other = Kubectl(f"{models.team.namespace}-b")
    Kubectl().apply(namespace(other.namespace))
    try:
        with team_models(other, models.release, [HOST]) as others:
            models.team.apply(body)
            at_zero(models, "same")
            other.apply(body)
            refused(others, "same", Reason.DUPLICATE_IDENTITY, sentence)
            second = others.seen("same")[-1]["metadata"]["creationTimestamp"]
            # Within one second the uid decides, not the order.
            soon(lambda: datetime.now(UTC).strftime("%FT%TZ") > second, "the next second")
            models.team.apply(models.body("third", alias=alias, source=source, replicas=0))
            refused(models, "third", Reason.DUPLICATE_IDENTITY, sentence)
            assert models.status("same")["loadState"] == "unloaded"
            models.team("delete", "sm", "same")
            at_zero(others, "same")
            refused(models, "third", Reason.DUPLICATE_IDENTITY, sentence)
            other("scale", "sm/same", "--replicas=1")
            others.tells("same", SERVABLE, "True", Reason.AVAILABLE, "1 of 1 pods answer.")

            def row() -> list[tuple[str, str]]:
                listed = client_pod.ask("/v1/served-models").json()["models"]
                return [
                    (each["profile"], each["load_state"])
                    for each in listed
                    if each["model"] == alias
                ]

            soon(
                lambda: row() == [(LAB, "loaded")], "the winner alone among the router's models", 30
            )
    finally:
        Kubectl()("delete", "namespace", other.namespace, "--wait=false")


@pytest.mark.budget(180)
def test_a_bad_new_spec_changes_nothing_of_what_serves(
    models: TeamModels, models_server: ModelsServer, client_pod: ClientPod
) -> None:
    embeds = models.body("embeds", source=models_server.source("tiny-embed.gguf"))
    models.team.apply(embeds)
    models.tells("embeds", SERVABLE, "True", Reason.AVAILABLE, "1 of 1 pods answer.")
    pods = models.team(
        "get", "pods", "--output=name", "--selector=app.kubernetes.io/name=pumas-worker"
    )
    call = {"model": embeds["spec"]["alias"], "input": "a cat"}
    soon(lambda: client_pod.ask("/v1/embeddings", call).status == 200, "an answer", 30)

    def still_serves() -> None:
        models.tells("embeds", SERVABLE, "True", Reason.AVAILABLE, "1 of 1 pods answer.")
        assert client_pod.ask("/v1/embeddings", call).status == 200
        served = "--selector=app.kubernetes.io/name=pumas-worker"
        assert models.team("get", "pods", "--output=name", served) == pods
        assert models.status("embeds")["loadState"] == "loaded"

    models.patch("embeds", source=models_server.source(NOT_A_MODEL))
    models.tells("embeds", ACCEPTED, "False", Reason.NOT_A_MODEL, re.compile(f"{NOT_A_MODEL}: .*"))
    still_serves()
    elsewhere = {"http": {"url": "http://elsewhere.example/m.gguf"}}
    models.patch("embeds", source=elsewhere)
    models.tells("embeds", ACCEPTED, "False", Reason.SOURCE_NOT_ALLOWED, re.compile("The host .*"))
    still_serves()
    models.patch("embeds", source=models_server.source("tiny-embed.gguf"))
    models.tells(
        "embeds", ACCEPTED, "True", Reason.ACCEPTED, "The file was inspected and can be served."
    )
    models.tells(
        "embeds", READY, "True", Reason.ROLLED_OUT, "Every pod of this generation is ready."
    )
    still_serves()
