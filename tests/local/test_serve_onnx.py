"""ONNX models through one `pumas serve`: the real engine, tiny models, and what goes wrong."""

from __future__ import annotations

import base64
import json
import math
import shutil
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import onnx
import pytest
from onnx import TensorProto, helper

from support.engines import engine_client
from support.senses import image_part, png, text_of
from support.serve import Serving, manifest, serve
from support.spoilt_onnx import change
from support.worker import until

#: One server for the module, hence one test process.
pytestmark = pytest.mark.xdist_group("serve-onnx")

#: Alias, model, what of it is named, settings of its engine.
MODELS = (
    ("emb", "mean", "", {}),
    ("rr", "rerank", "model.onnx", {}),
    ("clip", "clip", "", {"device": "cpu"}),
    # So many steps that there is time to end the engine in the middle of an image.
    ("img", "pipeline", "model_index.json", {"steps": 500}),
)
OFFERS = {
    "emb": "text_embedding",
    "rr": "rerank",
    "clip": "multimodal_embedding",
    "img": "image_generation",
}
#: Alias, and why it is refused before an engine starts.
REFUSED = {
    "odd-input": ("NotAModel", "model has the input depth_map, which this engine does not feed"),
    "odd-operator": ("NotAModel", "the model uses the operator acme.ops:Twist"),
    "no-tokenizer": ("NotAModel", "the model's file tokenizer.json is not there"),
    "no-graph": ("NotAModel", "the file unet/model.onnx is missing"),
    "not-there": ("SourceUnreachable", "not-there cannot be read: No such file or directory"),
}
TEXTS = ["red river", "blue", "a b c"]


def _spoil(models: Path, folder: Path) -> None:
    """Folders of the names in `REFUSED`, each with one thing wrong."""
    copies = {"odd-input": "cls", "odd-operator": "cls", "no-tokenizer": "mean"}
    for name, model in (copies | {"no-graph": "pipeline"}).items():
        shutil.copytree(models / model, folder / name)

    def add_input(model: onnx.ModelProto) -> None:
        port = helper.make_tensor_value_info("depth_map", TensorProto.FLOAT, ["batch"])
        model.graph.input.append(port)

    def add_operator(model: onnx.ModelProto) -> None:
        model.graph.node.append(helper.make_node("Twist", [], ["x"], domain="acme.ops"))
        model.opset_import.append(helper.make_opsetid("acme.ops", 1))

    change(folder / "odd-input/model.onnx", add_input)
    change(folder / "odd-operator/model.onnx", add_operator)
    (folder / "no-tokenizer/tokenizer.json").unlink()
    (folder / "no-graph/unet/model.onnx").unlink()


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory, onnx_models: Path) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("onnx")
    _spoil(onnx_models, folder)
    documents = [
        manifest(
            alias,
            runtime="onnxruntime",
            source={"path": str(onnx_models / model / named)},
            engine=engine,
        )
        for alias, model, named, engine in MODELS
    ]
    documents += [
        manifest(alias, runtime="onnxruntime", source={"path": alias}) for alias in REFUSED
    ]
    cuda = {"path": str(onnx_models / "mean")}
    documents.append(
        manifest("cuda", runtime="onnxruntime", source=cuda, engine={"device": "cuda"})
    )
    with serve(folder, *documents) as running:
        for alias, capability in OFFERS.items():
            running.until_available(alias, capability)
        yield running
        assert running.end() == 0
        assert running.survivors() == []


def operate(serving: Serving, model: str, **members: Any) -> httpx.Response:
    body = {"contract_version": 1, "request_id": "o:1", "model": model}
    return serving.client.post(f"{serving.url}/v1/model-operations", json=body | members)


def embed(serving: Serving, *texts: str, model: str = "emb", **options: Any) -> httpx.Response:
    return operate(
        serving,
        model,
        input={"kind": "text_batch", "texts": list(texts)},
        output="embeddings_float32",
        **({"options": {"kind": "embeddings", **options}} if options else {}),
    )


def draw(serving: Serving, model: str, width: int = 32, height: int = 32) -> httpx.Response:
    return operate(
        serving,
        model,
        capability="image_generation",
        input={"kind": "text", "text": "a cat on mars"},
        output="png_base64",
        options={"kind": "image_generation", "width": width, "height": height, "seed": 7},
    )


def result(answer: httpx.Response, kind: str) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    assert answer.json()["result"]["kind"] == kind
    return dict(answer.json()["result"])


def openai(serving: Serving, path: str, **body: Any) -> Any:
    answer = serving.client.post(serving.url + path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def not_admitted(answer: httpx.Response, status: int = 400) -> str:
    error = answer.json()["error"]
    assert answer.status_code == status, answer.text
    assert error["outcome"] == answer.headers["x-pumas-outcome"] == "not_admitted"
    return str(error["message"])


def test_an_embedder(serving: Serving) -> None:
    vectors = result(embed(serving, *TEXTS), "embeddings")["vectors"]
    assert [len(vector) for vector in vectors] == [16] * 3
    assert all(math.hypot(*vector) == pytest.approx(1, abs=1e-5) for vector in vectors)
    short = result(embed(serving, *TEXTS, dimensions=4), "embeddings")["vectors"]
    for vector, cut in zip(vectors, short, strict=True):
        length = math.hypot(*vector[:4])
        assert cut == pytest.approx([value / length for value in vector[:4]], abs=1e-5)
    for text, vector in zip(TEXTS, vectors, strict=True):
        data = openai(serving, "/v1/embeddings", model="emb", input=text)["data"]
        assert data[0]["embedding"] == pytest.approx(vector, abs=1e-5)


def test_a_cross_encoder(serving: Serving) -> None:
    asked = {"query": "red river", "documents": ["blue", "river", "blue"]}
    answer = operate(serving, "rr", input={"kind": "rerank", **asked}, output="relevance_scores")
    given = result(answer, "relevance_scores")["results"]
    assert sorted(r["index"] for r in given) == [0, 1, 2]
    scores = [r["relevance_score"] for r in given]
    assert scores == sorted(scores, reverse=True)
    theirs = openai(serving, "/v1/rerank", model="rr", **asked)["results"]
    by_index = {r["index"]: r["relevance_score"] for r in theirs}
    assert {r["index"]: r["relevance_score"] for r in given} == pytest.approx(by_index, abs=1e-6)


def test_texts_and_images_of_one_space(serving: Serving) -> None:
    items = [
        {"parts": [{"kind": "text", "text": "red"}]},
        {"parts": [image_part(png(shade=9))]},
        {"parts": [{"kind": "text", "text": "red"}, image_part(png(shade=9))]},
    ]
    answer = operate(
        serving,
        "clip",
        input={"kind": "content_batch", "items": items},
        output="embeddings_float32",
    )
    text, seen, both = result(answer, "embeddings")["vectors"]
    assert {len(text), len(seen), len(both)} == {12} and text != seen
    assert result(embed(serving, "red", model="clip"), "embeddings")["vectors"][0] == pytest.approx(
        text, abs=1e-5
    )
    content = {
        "type": "image_url",
        "image_url": {"url": f"data:image/png;base64,{text_of(png(shade=9))}"},
    }
    data = openai(serving, "/v1/embeddings", model="clip", input=[{"content": [content]}])["data"]
    assert data[0]["embedding"] == pytest.approx(seen, abs=1e-5)


@pytest.mark.parametrize(("width", "height"), [(32, 32), (64, 32)])
def test_an_image(serving: Serving, width: int, height: int) -> None:
    given = result(draw(serving, "img", width, height), "image")
    drawn = base64.b64decode(given["png_base64"])
    assert struct.unpack(">II", drawn[16:24]) == (width, height)
    assert given["seed"] == 7
    theirs = openai(
        serving,
        "/v1/images/generations",
        model="img",
        prompt="a cat on mars",
        size=f"{width}x{height}",
        seed=7,
    )
    assert theirs["data"] == [{"b64_json": given["png_base64"]}]


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (["a"] * 129, ("input_count", "129", "128")),
        (["b" * 65_537], ("input_characters", "65537", "65536")),
        (["a", "red " * 60], ("input[1]", "input_tokens", "62", "48")),
        (["\ufdfa " * 60], ("input_tokens", "48")),
    ],
)
def test_case_55_more_than_the_model_takes(
    serving: Serving, texts: list[str], words: tuple[str, ...]
) -> None:
    message = not_admitted(embed(serving, *texts))
    assert [word for word in words if word not in message] == []


def test_case_55_pairs_of_a_cross_encoder(serving: Serving) -> None:
    asked = {"kind": "rerank", "query": "red " * 30, "documents": ["blue", "blue " * 30]}
    message = not_admitted(operate(serving, "rr", input=asked, output="relevance_scores"))
    assert "input_tokens" in message and "48" in message


def test_the_engine_itself_refuses_what_is_too_long(serving: Serving) -> None:
    """On the OpenAI route its own words come, and the caller learns that it was asked."""
    asked = {"model": "emb", "input": "red " * 60}
    answer = serving.client.post(f"{serving.url}/v1/embeddings", json=asked)
    assert (answer.status_code, answer.headers["x-pumas-outcome"]) == (400, "unknown")
    assert "the limit is 48" in answer.json()["error"]["message"]
    with engine_client(serving.engine("emb")) as engine:
        assert engine.post("/v1/embeddings", json=asked).content == answer.content


@pytest.mark.parametrize(
    ("width", "height", "words"),
    [
        (33, 32, ("`options.width` is 33",)),
        (32, 4096, ("`options.height`", "4096")),
        (64, 64, ("`options.width` x `options.height`",)),
    ],
)
def test_sizes_that_the_pipeline_does_not_make(
    serving: Serving, width: int, height: int, words: tuple[str, ...]
) -> None:
    message = not_admitted(draw(serving, "img", width, height))
    assert [word for word in words if word not in message] == []


def test_discovery_states_what_the_engines_state(serving: Serving) -> None:
    rows = serving.rows()
    limits = {}
    for alias, offered in OFFERS.items():
        descriptors = {c["capability"]: c for c in rows[alias]["capabilities"]}
        assert descriptors[offered]["availability"] == {"state": "available"}
        limits[alias] = {b["option"]: b["maximum"] for b in descriptors[offered]["option_bounds"]}
    assert limits["emb"] == {
        "dimensions": 16,
        "input_count": 128,
        "input_characters": 65_536,
        "input_tokens": 48,
    }
    assert {"width", "height", "seed"} <= limits["img"].keys()
    assert rows["clip"]["modalities"] == {"input": ["text", "image"], "output": ["vector"]}
    assert rows["img"]["modalities"] == {"input": ["text"], "output": ["image"]}


@pytest.mark.parametrize("alias", REFUSED)
def test_what_stands_against_a_model_is_named(serving: Serving, alias: str) -> None:
    row = serving.until_row(alias, load_state="failed")
    reason, words = REFUSED[alias]
    assert row["error"]["reason"] == reason
    assert words in row["error"]["message"]
    assert "/tmp" not in json.dumps(row)
    assert reason in not_admitted(embed(serving, "a", model=alias), 503)


def test_who_asks_for_cuda_and_does_not_get_it_is_not_served(serving: Serving) -> None:
    row = serving.until_row("cuda", load_state="failed")
    assert row["error"]["reason"] == "EngineFailed"
    assert "CUDA was asked for" in row["error"]["message"]
    not_admitted(embed(serving, "a", model="cuda"), 503)


def test_engine_killed_in_the_middle_of_an_image(serving: Serving) -> None:
    """The outcome is unknown, nothing is replayed, and the next image is made."""
    engine = serving.engine("img")
    answers: list[httpx.Response] = []

    def call() -> None:
        answers.append(draw(serving, "img", 64, 32))

    # One is being made, the others wait for it.
    callers = [threading.Thread(target=call) for _ in range(3)]
    with engine_client(engine) as client:
        for caller in callers:
            caller.start()
        until(
            lambda: any(slot["is_processing"] for slot in client.get("/slots").json()),
            "an image in the making",
        )
        # It gets no further, however long the other calls take on their way to it.
        engine.suspend()
        serving.until_in_flight("img", len(callers))
    engine.kill()
    for caller in callers:
        caller.join()
    errors = [answer.json()["error"] for answer in answers if answer.status_code != 200]
    assert errors, "the engine was ended too late"
    assert {(e["code"], e["outcome"]) for e in errors} == {("transport_lost", "unknown")}
    again = until(
        lambda: found if (found := draw(serving, "img")).status_code == 200 else None,
        "an image after the restart",
    )
    assert result(again, "image")["seed"] == 7
    assert serving.engine("img").pid != engine.pid
