"""What is not text: a model with a projector, ONNX models, an image pipeline, from a file server."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from pumas_server.media.generated import check_generated
from support.client_pod import ClientPod
from support.cluster import ROOT, Kubectl
from support.models_server import ONNX, PIPELINE, ModelsServer
from support.release import served_model
from support.serving import SERVABLE, answered, operation

IMAGE = {
    "kind": "image",
    "encoding": "png",
    "data_base64": base64.b64encode((ROOT / "docs/sample.png").read_bytes()).decode(),
}


@pytest.mark.budget(90)
def test_a_vision_model_is_served(
    team: Kubectl, client_pod: ClientPod, models_server: ModelsServer
) -> None:
    alias = f"sees-{team.namespace}"
    source = models_server.source("tiny-chat.gguf")
    projector = models_server.source("tiny-projector.gguf")
    team.apply(served_model("sees", alias=alias, source=source, projector=projector))
    team(*SERVABLE, "servedmodel/sees")
    asked = operation(
        alias,
        input=IMAGE,
        output="text",
        options={"kind": "text_generation", "max_tokens": 4, "temperature": 0},
    )
    told = answered(client_pod, "/v1/model-operations", asked).json()["result"]
    assert told["kind"] == "text"
    status = team.get("servedmodel", "sees")["status"]
    assert status["file"]["projector"]["inputModalities"] == ["image", "audio"]
    assert status["runtime"]["inputModalities"][:3] == ["text", "image", "audio"]


@pytest.mark.budget(60)
def test_a_projector_of_another_width_asks_for_no_pod(
    team: Kubectl, models_server: ModelsServer
) -> None:
    source = models_server.source("tiny-chat.gguf")
    projector = models_server.source("tiny-projector-wide.gguf")
    team.apply(
        served_model("odd", alias=f"odd-{team.namespace}", source=source, projector=projector)
    )
    team(*("wait", "--for=condition=Accepted=false", "--timeout=50s", "servedmodel/odd"))
    error = team.get("servedmodel", "odd")["status"]["error"]
    assert error["reason"] == "ProjectorMismatch"
    assert "128 values, the model takes 64" in error["message"]
    assert team.get("deployments")["items"] == []


@pytest.mark.budget(120)
def test_onnx_models_are_served(
    team: Kubectl, client_pod: ClientPod, models_server: ModelsServer
) -> None:
    """An embedder whose graph lies below its configs, and a pipeline of three graphs."""
    embeds, draws = f"embeds-{team.namespace}", f"draws-{team.namespace}"
    graph = f"{ONNX}/onnx/model.onnx"
    runtime: dict[str, Any] = {"runtime": "onnxruntime"}
    team.apply(
        served_model(
            "embeds",
            alias=embeds,
            source=models_server.source(graph),
            sha256=models_server.digest(graph),
            **runtime,
        ),
        served_model(
            "draws",
            alias=draws,
            source=models_server.source(f"{PIPELINE}/model_index.json"),
            engine={"steps": 3},
            **runtime,
        ),
    )
    team(*SERVABLE, "servedmodel/embeds", "servedmodel/draws")
    asked = operation(
        embeds,
        input={"kind": "text_batch", "texts": ["red river", "blue"]},
        output="embeddings_float32",
        options={"kind": "embeddings", "dimensions": 4},
    )
    vectors = answered(client_pod, "/v1/model-operations", asked).json()["result"]["vectors"]
    assert [len(vector) for vector in vectors] == [4, 4]
    asked = operation(
        draws,
        input={"kind": "text", "text": "a red fox"},
        output="png_base64",
        options={"kind": "image_generation", "width": 16, "height": 12, "seed": 7},
    )
    image = answered(client_pod, "/v1/model-operations", asked).json()["result"]
    assert (image["kind"], image["seed"]) == ("image", 7)
    assert check_generated(image["png_base64"]) == (16, 12)

    status = team.get("servedmodel", "embeds")["status"]
    assert (status["file"]["format"], status["runtime"]["mode"]) == ("onnx", "embed")
    assert status["file"]["digest"] == f"sha256:{models_server.digest(graph)}"
    assert {limit["option"] for limit in status["runtime"]["limits"]} >= {"input_tokens"}
    assert status["runtime"]["device"] == "cpu"
    status = team.get("servedmodel", "draws")["status"]
    assert status["file"]["pipeline"] == "StableDiffusionPipeline"


@pytest.mark.budget(60)
def test_an_onnx_model_that_lacks_a_file_asks_for_no_pod(
    team: Kubectl, models_server: ModelsServer
) -> None:
    """A graph without its tokenizer, and a device that this cluster has not."""
    graph = models_server.source(f"{ONNX}-bare/onnx/model.onnx")
    spec: dict[str, Any] = {"runtime": "onnxruntime", "source": graph}
    team.apply(served_model("bare", alias=f"bare-{team.namespace}", **spec))
    team(*("wait", "--for=condition=Accepted=false", "--timeout=50s", "servedmodel/bare"))
    error = team.get("servedmodel", "bare")["status"]["error"]
    assert error["reason"] == "NotAModel"
    assert "tokenizer.json is not there" in error["message"]
    assert team.get("deployments")["items"] == []
