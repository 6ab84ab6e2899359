"""Images and audio on the real engine, with tiny models and a projector, through one `pumas serve`.

The numbers are those of the handed conformance cases.
"""

from __future__ import annotations

import json
import math
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.documents import text_part
from support.senses import audio_part, clip, image, image_part, jpeg, png, said, text_of, wav
from support.serve import Serving, manifest, serve
from support.tiny_models import build_projector
from support.worker import until

#: One server for the module, hence one test process.
pytestmark = pytest.mark.xdist_group("serve-senses")

MODELS = {
    "omni": ("tiny-chat", "tiny-projector"),
    "senses": ("tiny-senses", "tiny-projector"),
    "dec": ("tiny-decision", "tiny-projector"),
    "wide": ("tiny-chat", "tiny-projector-wide"),
}
OFFERS = {"omni": "image_to_text", "senses": "multimodal_embedding", "dec": "decision"}
BRIEF = {"kind": "text_generation", "max_tokens": 4, "temperature": 0}


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory, tiny_models: Path) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("projectors")
    build_projector(folder / "odd.gguf", unexpected=True)
    build_projector(folder / "split.gguf", hears=128)
    documents = [
        manifest(
            alias,
            source={"path": str(tiny_models / f"{file}.gguf")},
            projector={"path": str(tiny_models / f"{projector}.gguf")},
        )
        for alias, (file, projector) in MODELS.items()
    ]
    chat = {"path": str(tiny_models / "tiny-chat.gguf")}
    documents += [
        manifest(name, source=chat, projector={"path": str(folder / f"{name}.gguf")})
        for name in ("odd", "split")
    ]
    with serve(tmp_path_factory.mktemp("senses"), *documents) as running:
        for alias, capability in OFFERS.items():
            running.until_available(alias, capability)
        running.until_row("wide", load_state="failed")
        yield running
        assert running.end() == 0
        assert running.survivors() == []


@contextmanager
def the_same_engine(serving: Serving, alias: str) -> Iterator[None]:
    """The engine that runs before runs afterwards too."""
    before = serving.engine(alias)
    yield
    assert before.is_running()
    assert serving.engine(alias).pid == before.pid


def operate(serving: Serving, model: str, wanted: Any, **members: Any) -> httpx.Response:
    body = {"contract_version": 1, "request_id": "s:1", "model": model, "output": "text"}
    body |= {"input": wanted, **members}
    return serving.client.post(f"{serving.url}/v1/model-operations", json=body)


def result(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["result"])


def embed(serving: Serving, *items: Any, capability: str = "multimodal_embedding") -> Any:
    wanted = {"kind": "content_batch", "items": [{"parts": list(parts)} for parts in items]}
    answer = operate(serving, "senses", wanted, output="embeddings_float32", capability=capability)
    return result(answer)["vectors"]


def cosine(one: list[float], other: list[float]) -> float:
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    return dot / math.hypot(*one) / math.hypot(*other)


def available(serving: Serving, alias: str) -> dict[str, Any]:
    row = serving.rows()[alias]
    return {
        c["capability"]: c for c in row["capabilities"] if c["availability"]["state"] == "available"
    }


def test_case_83_what_the_descriptors_say(serving: Serving) -> None:
    omni = available(serving, "omni")
    assert set(omni) == {"chat_generation", "text_generation", "image_to_text"}
    assert omni["chat_generation"]["input_modalities"] == ["text", "image", "audio"]
    assert omni["image_to_text"]["input_modalities"] == ["text", "image"]
    stated = {bound["option"] for bound in omni["chat_generation"]["option_bounds"]}
    assert stated >= {"image_bytes", "total_image_bytes", "message_count", "audio_seconds"}
    senses = available(serving, "senses")
    assert set(senses) == {"text_embedding", "multimodal_embedding"}
    assert senses["multimodal_embedding"]["input_modalities"] == ["text", "image", "audio"]


def test_a_decision_model_whose_engine_refuses_media_does_not_declare_them(
    serving: Serving,
) -> None:
    row = serving.rows()["dec"]
    assert row["modalities"] == {"input": ["text"], "output": ["json"]}
    assert available(serving, "dec")["decision"]["input_modalities"] == ["text"]
    question = {"q": {"type": "noul", "instructions": "Is it polite?"}}
    wanted = {"kind": "decision", "state": "please", "questions": question}
    assert result(operate(serving, "dec", wanted, output="decisions"))["answers"]["q"]["noul"] >= 0
    shown = operate(serving, "dec", wanted | {"images": [image()]}, output="decisions")
    assert (shown.status_code, shown.json()["error"]["code"]) == (422, "unsupported_modality")


def test_a_projector_of_another_width_is_refused_before_anything_is_loaded(
    serving: Serving,
) -> None:
    row = serving.rows()["wide"]
    assert row["error"]["reason"] == "ProjectorMismatch"
    assert row["error"]["message"] == (
        "tiny-projector-wide.gguf: the projector gives vectors of 128 values, the model takes 64"
    )
    refused = operate(serving, "wide", image_part())
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "capability_unavailable")


def test_a_projector_that_only_the_engine_finds_to_be_another_models(serving: Serving) -> None:
    error = until(lambda: serving.rows()["split"].get("error"), "the fault of the engine")
    assert error["reason"] == "ProjectorMismatch"
    assert "n_embd_v = 64, n_embd_a = 128" in error["message"]
    assert serving.rows()["split"]["load_state"] == "failed"


def test_a_projector_that_the_engine_aborts_on_costs_its_engine_alone(serving: Serving) -> None:
    error = until(lambda: serving.rows()["odd"].get("error"), "the fault of the engine")
    assert error["reason"] == "EngineFailed"
    assert "GGML_ASSERT(!model.layers[0].k_b) failed" in error["message"]
    assert "/" not in error["message"]
    # What its projector would let it see is known all the same: this is no model of text.
    refused = operate(serving, "odd", image_part())
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "capability_unavailable")
    assert "EngineFailed" in refused.json()["error"]["message"]
    assert result(operate(serving, "omni", image_part(), options=BRIEF))["kind"] == "text"


@pytest.mark.parametrize("encoding", ["png", "jpeg"])
def test_case_37_an_image_is_described(serving: Serving, encoding: str) -> None:
    answer = operate(serving, "omni", image_part(encoding=encoding), options=BRIEF)
    told = result(answer)
    assert told["kind"] == "text"
    assert told["finish_reason"] in ("stop", "length")


def test_case_38_and_39_images_among_texts(serving: Serving) -> None:
    mixed = said(text_part("a"), image_part(), text_part("b"), image_part(encoding="jpeg"))
    seen, chatted = (
        result(operate(serving, "omni", mixed, options=BRIEF, **named))
        for named in ({}, {"capability": "chat_generation"})
    )
    # The same messages go to the same route.
    assert seen == chatted
    other = said(text_part("a"), image_part(png(shade=255)), text_part("b"))
    assert result(operate(serving, "omni", other, options=BRIEF)) != seen


@pytest.mark.parametrize("floats", [False, True])
@pytest.mark.parametrize("channels", [1, 2])
def test_case_49_a_clip_is_heard(serving: Serving, channels: int, floats: bool) -> None:
    heard = {"kind": "audio", **clip(4000, 16_000, channels, floats=floats)}
    for parts in ((heard, text_part("what?")), (image_part(), heard)):
        told = result(operate(serving, "omni", said(*parts), options=BRIEF))
        assert told["kind"] == "text"


def test_a_chat_about_what_is_seen_and_heard_streams(serving: Serving) -> None:
    wanted = said(image_part(), audio_part(), text_part("what?"))
    answer = operate(
        serving, "omni", wanted, options=BRIEF, stream=True, capability="chat_generation"
    )
    assert answer.status_code == 200
    kinds = [line[7:] for line in answer.text.splitlines() if line.startswith("event: ")]
    assert (kinds[0], kinds[-1]) == ("started", "completed")


def test_case_93_content_of_every_kind_lies_in_one_space(serving: Serving) -> None:
    vectors = embed(
        serving, [text_part("a cat"), image_part()], [text_part("a cat")], [image_part()]
    )
    (alone,) = result(
        operate(serving, "senses", {"kind": "text", "text": "a cat"}, output="embeddings_float32")
    )["vectors"]
    assert {len(vector) for vector in vectors} == {len(alone)} == {64}
    assert cosine(vectors[1], alone) == pytest.approx(1, abs=1e-3)
    assert cosine(vectors[0], alone) < 0.999
    assert cosine(vectors[2], alone) < 0.999
    (single,) = result(operate(serving, "senses", image_part(), output="embeddings_float32"))[
        "vectors"
    ]
    assert cosine(single, vectors[2]) == pytest.approx(1, abs=1e-3)
    (other,) = embed(serving, [image_part(png(64, 64, shade=255))])
    assert cosine(other, single) < 0.9999


def test_audio_as_the_last_part_ends_no_engine(serving: Serving) -> None:
    with the_same_engine(serving, "senses"):
        vectors = embed(
            serving, [audio_part()], [text_part("a"), audio_part()], [image_part(), audio_part()]
        )
        assert {len(vector) for vector in vectors} == {64}
        sound = {"type": "input_audio", "input_audio": {"data": text_of(wav()), "format": "wav"}}
        disguised = {
            "type": "image_url",
            "image_url": {"url": "data:image/png;base64," + text_of(wav())},
        }
        empty = {"type": "text", "text": ""}
        for body in (
            {"input": [{"content": [sound]}]},
            {"input": {"content": [sound, empty]}},
            {"input": [{"content": [disguised]}]},
            {"content": [{"content": [sound]}]},
        ):
            answer = forwarded(serving, "/v1/embeddings", {"model": "senses", **body})
            assert (answer.status_code, code(answer)) == (400, "invalid_request")
        word = {"type": "text", "text": "\n"}
        picture = {
            "type": "image_url",
            "image_url": {"url": "data:image/jpeg;base64," + text_of(jpeg())},
        }
        for content in ([sound, word], [sound, picture], [picture]):
            body = {"model": "senses", "input": [{"content": content}]}
            answer = forwarded(serving, "/v1/embeddings", body)
            assert answer.status_code == 200, answer.text
            assert len(answer.json()["data"][0]["embedding"]) == 64


def forwarded(serving: Serving, path: str, body: dict[str, Any]) -> httpx.Response:
    return serving.client.post(serving.url + path, json=body)


def code(answer: httpx.Response) -> str:
    return str(answer.json()["error"]["code"])


def parts_with(url: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Each way to write a medium that an engine would fetch."""
    limit = {"model": "omni", "max_tokens": 2}

    def chat(*parts: Any) -> tuple[str, dict[str, Any]]:
        return "/v1/chat/completions", limit | {"messages": [{"role": "user", "content": parts}]}

    return {
        "image_url": chat({"type": "image_url", "image_url": {"url": url}}),
        "input_audio": chat({"type": "input_audio", "input_audio": {"data": url, "format": "wav"}}),
        "input_video": chat({"type": "input_video", "input_video": {"data": url}}),
        "responses": (
            "/v1/responses",
            {"model": "omni", "max_output_tokens": 2, "input": [
                {"role": "user", "content": [{"type": "input_image", "image_url": url}]}]},
        ),
        "messages": (
            "/v1/messages",
            limit | {"messages": [{"role": "user", "content": [
                {"type": "image", "source": {"type": "url", "url": url}}]}]},
        ),
        "embeddings": (
            "/v1/embeddings",
            {"model": "senses", "input": [
                {"content": [{"type": "image_url", "image_url": {"url": url}}]}]},
        ),
    }  # fmt: skip


@pytest.mark.parametrize("way", sorted(parts_with("")))
def test_an_address_is_refused_and_nobody_connects_to_it(serving: Serving, way: str) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/x"
        path, body = parts_with(url)[way]
        answer = forwarded(serving, path, body)
        assert (answer.status_code, code(answer)) == (400, "invalid_request")
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_media_of_forwarded_routes_are_seen(serving: Serving) -> None:
    picture = "data:image/png;base64," + text_of(png())
    for way in ("image_url", "responses"):
        path, body = parts_with(picture)[way]
        answer = forwarded(serving, path, body)
        assert answer.status_code == 200, answer.text
    path, body = parts_with("")["messages"]
    source = {"type": "base64", "media_type": "image/png", "data": text_of(png())}
    body["messages"][0]["content"][0]["source"] = source
    answer = forwarded(serving, path, body)
    assert answer.status_code == 200, answer.text
    counted = forwarded(serving, "/v1/messages/count_tokens", body)
    assert counted.json()["input_tokens"] > 0, counted.text


@pytest.mark.parametrize(
    "wanted",
    [
        image_part(png()[:-7]),
        image_part(jpeg()[:-20], "jpeg"),
        said(audio_part(sample_count=1599)),
    ],
)
def test_case_41_and_50_truncated_media_reach_no_engine(serving: Serving, wanted: Any) -> None:
    answer = operate(serving, "omni", wanted)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "invalid_request")
    assert error["outcome"] == "not_admitted"


def test_a_wav_file_is_transcribed(serving: Serving) -> None:
    form = {"model": "omni", "response_format": "json", "temperature": "0", "max_tokens": "8"}
    file = {"file": ("a.wav", wav(), "audio/wav")}
    path = serving.url + "/v1/audio/transcriptions"
    answer = serving.client.post(path, data=form, files=file)
    assert answer.status_code == 200, answer.text
    assert isinstance(answer.json()["text"], str)
    refused = serving.client.post(path, data=form | {"model": "senses"}, files=file)
    assert (refused.status_code, code(refused)) == (400, "endpoint_unavailable")


def test_what_no_engine_may_be_asked_cannot_be_asked(serving: Serving) -> None:
    for path in ("/props", "/slots", "/models/load", "/lora-adapters", "/v1/systemone"):
        assert forwarded(serving, path, {"model": "omni"}).status_code == 404


def test_the_operations_tell_what_was_done(serving: Serving) -> None:
    result(operate(serving, "omni", image_part(), options=BRIEF))
    (line,) = [x for x in serving.operations() if x.get("capability") == "image_to_text"][-1:]
    assert text_of(png()) not in json.dumps(line)
