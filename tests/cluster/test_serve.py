"""From `kubectl apply` to an answer through the router's Service, as a team and its client see it."""

from __future__ import annotations

import pytest

from support.client_pod import ClientPod
from support.cluster import Kubectl
from support.models_server import ModelsServer
from support.release import LAB, Release, served_model
from support.serving import SERVABLE, answered, operation


@pytest.mark.budget(90)
def test_a_model_that_is_applied_is_served(
    team: Kubectl, client_pod: ClientPod, models_server: ModelsServer
) -> None:
    alias = f"chat-{team.namespace}"
    source = models_server.source("tiny-chat.gguf")
    digest = models_server.digest("tiny-chat.gguf")
    team.apply(served_model("chat", alias=alias, source=source, sha256=digest))
    team(*SERVABLE, "servedmodel/chat")

    told = answered(
        client_pod,
        "/v1/model-operations",
        operation(
            alias,
            capability="text_generation",
            input={"kind": "text", "text": "Once upon"},
            output="text",
            options={"kind": "text_generation", "max_tokens": 4, "temperature": 0},
        ),
    ).json()
    assert (told["request_id"], told["result"]["kind"]) == ("lab:1", "text")
    assert told["result"]["finish_reason"] in ("length", "stop")

    chat = answered(
        client_pod,
        "/v1/chat/completions",
        {"model": alias, "max_tokens": 4, "messages": [{"role": "user", "content": "hello"}]},
    ).json()
    assert chat["object"] == "chat.completion"
    assert chat["usage"]["completion_tokens"] >= 1

    listed = client_pod.ask("/v1/served-models").json()["models"]
    [row] = [each for each in listed if each["model"] == alias]
    assert (row["profile"], row["load_state"]) == (LAB, "loaded")


@pytest.mark.budget(90)
def test_vectors_and_scores_come_from_the_same_api(
    team: Kubectl, client_pod: ClientPod, models_server: ModelsServer
) -> None:
    embed, rerank = f"embed-{team.namespace}", f"rerank-{team.namespace}"
    team.apply(
        served_model("embed", alias=embed, source=models_server.source("tiny-embed.gguf")),
        served_model("rerank", alias=rerank, source=models_server.source("tiny-rerank.gguf")),
    )
    team(*SERVABLE, "servedmodel/embed", "servedmodel/rerank")
    vectors = answered(
        client_pod,
        "/v1/model-operations",
        operation(embed, input={"kind": "text", "text": "a cat"}, output="embeddings_float32"),
    ).json()["result"]
    assert vectors["kind"] == "embeddings"
    scores = answered(
        client_pod,
        "/v1/rerank",
        {"model": rerank, "query": "a cat", "documents": ["a dog", "a cat"]},
    ).json()
    assert {each["index"] for each in scores["results"]} == {0, 1}


def test_the_api_is_the_same_at_the_services_own_address(
    deployed: Release, client_pod: ClientPod
) -> None:
    asked = client_pod.ask("/openapi.json")
    assert asked.status == 200
    assert asked.json()["openapi"].startswith("3.")
    assert client_pod.ask(f"{deployed.url}/healthz").status == 200


def test_a_name_that_nobody_serves_is_told_so(client_pod: ClientPod) -> None:
    asked = operation("nobody-has-this", input={"kind": "text", "text": "x"}, output="text")
    answer = client_pod.ask("/v1/model-operations", asked)
    assert answer.status == 404
    assert answer.json()["error"]["outcome"] == "not_admitted"
