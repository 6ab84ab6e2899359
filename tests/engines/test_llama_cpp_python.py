"""llama-cpp-python as the engine of `pumas serve`, and as the process that its supervisor starts.

Run by `make test-llama-cpp-python`, which installs it; no other verb collects this file.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pytest

from pumas_server.worker.engine_client import EngineClient
from pumas_server.worker.engine_log import EngineLog
from support.engines import engine_client, plain_engine
from support.healthy import until_healthy
from support.serve import Serving, manifest, serve
from support.worker import KEY, free_ports, is_running, until, worker

MODULE = "pumas_server.worker.llama_cpp_python"
ENVIRON = {"PUMAS_ENGINE": "llama-cpp-python"}
SENTENCE = "The train leaves at noon"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("serve")


@pytest.fixture(scope="module")
def serving(tiny_models: Path, folder: Path) -> Iterator[Serving]:
    """A chat model and an embedder, each in an engine of llama-cpp-python."""
    documents = [
        manifest(name, source={"path": str(tiny_models / f"tiny-{name}.gguf")}, alias=f"t/{name}")
        for name in ("chat", "embed", "rerank")
    ]
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PUMAS_ENGINE", "llama-cpp-python")
        with serve(folder, *documents) as running:
            running.until_available("t/chat", "chat_generation")
            running.until_available("t/embed", "text_embedding")
            yield running
            assert running.end() == 0
            assert running.survivors() == []


@contextmanager
def engine(model: Path, folder: Path, *flags: str) -> Iterator[tuple[httpx.Client, psutil.Process]]:
    """The process alone, with a key, once it has loaded."""
    key_file = folder / "engine-key"
    key_file.write_text(f"# a comment\n{KEY}\n")
    port = free_ports(1)[0]
    command = [sys.executable, "-P", "-m", MODULE, "-m", str(model), "-a", "team/tiny"]
    command += ["--port", str(port), "--api-key-file", str(key_file), "-t", "1", *flags]
    with (folder / "engine.log").open("wb") as log:
        process = subprocess.Popen(command, stderr=log, stdout=log)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            until_healthy(client, process)
            client.headers["Authorization"] = f"Bearer {KEY}"
            yield client, psutil.Process(process.pid)
    finally:
        process.kill()
        process.wait()


def ended(*flags: str) -> tuple[int, str]:
    """How the process ends with these flags, and the cause that its log gives."""
    run = subprocess.run(
        [sys.executable, "-P", "-m", MODULE, *flags], capture_output=True, timeout=60
    )
    log = EngineLog(Path(flags[1]))
    log.feed(run.stderr)
    log.eof()
    return run.returncode, log.cause()


def test_it_is_the_engine_that_runs(serving: Serving) -> None:
    assert MODULE in serving.engine("t/chat").cmdline()
    row = serving.until_available("t/chat", "text_generation")
    assert row["load_state"] == "loaded"


def test_finite_text(serving: Serving) -> None:
    answer = serving.operate(model="t/chat", capability="text_generation")
    assert answer.status_code == 200, answer.text
    result = answer.json()["result"]
    assert (result["kind"], result["finish_reason"]) == ("text", "length")
    assert result["text"]


def test_streamed_text_is_the_finite_text(serving: Serving) -> None:
    finite = serving.operate(model="t/chat").json()["result"]["text"]
    streamed = serving.operate(model="t/chat", stream=True)
    assert streamed.headers["content-type"].startswith("text/event-stream")
    events = [json.loads(line[6:]) for line in streamed.text.splitlines() if line[:6] == "data: "]
    assert events[-1]["kind"] == "completed", events
    assert finite


def test_chat_by_the_contract_and_by_openai(serving: Serving) -> None:
    messages = [{"role": "user", "content": [{"kind": "text", "text": "hello"}]}]
    answer = serving.operate(
        model="t/chat",
        capability="chat_generation",
        input={"kind": "messages", "messages": messages},
    )
    assert answer.status_code == 200, answer.text
    assert answer.json()["result"]["finish_reason"] in ("length", "stop")
    body = {"model": "t/chat", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
    plain = serving.client.post(f"{serving.url}/v1/chat/completions", json=body)
    assert plain.status_code == 200, plain.text
    assert plain.json()["choices"][0]["message"]["role"] == "assistant"
    assert plain.json()["usage"]["completion_tokens"] > 0
    stream = serving.client.post(f"{serving.url}/v1/chat/completions", json=body | {"stream": True})
    assert stream.text.rstrip().endswith("data: [DONE]")


def test_vectors_are_those_of_the_default_engine(serving: Serving, tiny_models: Path) -> None:
    texts = [SENTENCE, "a", "How do I reset my password? " * 4]
    answer = serving.operate(
        model="t/embed",
        capability="text_embedding",
        input={"kind": "text_batch", "texts": texts},
        output="embeddings_float32",
        options={"kind": "embeddings"},
    )
    assert answer.status_code == 200, answer.text
    ours = np.array(answer.json()["result"]["vectors"])
    with plain_engine(tiny_models / "tiny-embed.gguf", "--embeddings", "-kvu") as default:
        told = default.client.post("/v1/embeddings", json={"input": texts}).json()["data"]
        theirs = np.array([entry["embedding"] for entry in told])
    assert np.allclose(np.linalg.norm(ours, axis=1), 1, atol=1e-5)
    assert ((ours * theirs).sum(axis=1) >= 0.999).all()


def test_an_openai_clients_vectors(serving: Serving) -> None:
    with engine_client(serving.engine("t/embed")) as client:
        plain = client.post("/v1/embeddings", json={"input": "a"}).json()["data"][0]
        body = {"input": "a", "encoding_format": "base64"}
        packed = client.post("/v1/embeddings", json=body).json()["data"][0]
        assert (plain["index"], packed["index"]) == (0, 0)
        raw = np.frombuffer(base64.b64decode(packed["embedding"]), "<f4")
        assert np.allclose(raw, plain["embedding"])
        long = client.post("/v1/embeddings", json={"input": "a" * 3000})
        assert (long.status_code, long.json()["error"]["type"]) == (400, "invalid_request_error")
        assert "exceed batch size" in long.json()["error"]["message"]


def test_a_model_whose_mode_it_has_not_is_listed_with_the_reason(serving: Serving) -> None:
    row = serving.until_row("t/rerank", load_state="failed")
    assert row["error"]["reason"] == "NotImplemented"
    assert row["error"]["message"].startswith("The engine llama-cpp-python has no mode rerank")


@pytest.mark.parametrize(
    ("model", "spec", "words"),
    [
        ("tiny-decision", {}, "no mode decide"),
        ("tiny-chat", {"engine": {"parallel": 4}}, "engine.parallel of 4"),
        ("tiny-chat", {"engine": {"chatTemplate": "x"}}, "engine.chatTemplate"),
        ("tiny-chat", {"engine": {"extraArgs": ["--swa-full"]}}, "does not take --swa-full"),
        ("tiny-chat", {"task": "feature-extraction"}, "pooling"),
    ],
)
def test_what_it_cannot_do_is_refused_by_the_supervisor(
    tiny_models: Path, tmp_path: Path, model: str, spec: dict[str, Any], words: str
) -> None:
    with worker(tmp_path, tiny_models / f"{model}.gguf", environ=ENVIRON, **spec) as pod:
        error = pod.until_state("failed")["error"]
        assert error["reason"] == "NotImplemented"
        assert words in error["message"]


def test_a_pods_facts_are_of_this_engine(tiny_models: Path, tmp_path: Path) -> None:
    with worker(tmp_path, tiny_models / "tiny-chat.gguf", environ=ENVIRON) as pod:
        told = pod.until_state("ready")
        assert told["runtime"]["build"].startswith("llama-cpp-python 0.")
        assert (told["runtime"]["slots"], told["runtime"]["context_tokens"]) == (1, 2048)
        assert (told["mode"], told["runtime"]["input_modalities"]) == ("generate", ["text"])
        engine_pid = pod.engine_pid()
        command = psutil.Process(engine_pid).cmdline()
        assert KEY not in " ".join(command)
        assert KEY not in psutil.Process(engine_pid).environ().values()


def test_a_killed_engine_is_started_again(tiny_models: Path, tmp_path: Path) -> None:
    with worker(tmp_path, tiny_models / "tiny-chat.gguf", environ=ENVIRON) as pod:
        first = pod.until_state("ready")["boot_id"]
        psutil.Process(pod.engine_pid()).kill()
        until(lambda: pod.descriptor().get("restarts") == 1, "a restart")
        assert pod.until_state("ready")["boot_id"] != first


def test_a_killed_supervisor_takes_it_along(tiny_models: Path, tmp_path: Path) -> None:
    with worker(tmp_path, tiny_models / "tiny-chat.gguf", environ=ENVIRON) as pod:
        pod.until_state("ready")
        pid = pod.engine_pid()
        pod.process.kill()
        until(lambda: not is_running(pid), "the end of the engine")


def test_a_drain_waits_for_the_stream(tiny_models: Path, tmp_path: Path) -> None:
    model = tiny_models / "tiny-chat.gguf"
    with worker(tmp_path, model, environ=ENVIRON, drainSeconds=30) as pod:
        pod.until_state("ready")
        body = {"prompt": "abc", "max_tokens": 360, "stream": True, "temperature": 0}
        answers: list[str] = []

        def ask() -> None:
            answers.append(pod.ask_engine("/v1/completions", body).text)

        asking = threading.Thread(target=ask)
        asking.start()
        until(lambda: pod.descriptor()["busy"] == 1, "a busy slot")
        pod.process.send_signal(signal.SIGTERM)
        assert pod.process.wait(40) == 0
        asking.join()
        assert answers[0].rstrip().endswith("data: [DONE]")


def test_a_wrong_file(tiny_models: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF" + b"\0" * 100)
    status, cause = ended("-m", str(bad))
    assert status == 1
    assert cause
    assert str(tmp_path) not in cause
    status, cause = ended("-m", str(tmp_path / "absent.gguf"))
    assert (status, str(tmp_path) in cause) == (1, False)
    model = tiny_models / "tiny-chat.gguf"
    status, cause = ended("-m", str(model), "--api-key-file", str(tmp_path / "absent"))
    assert (status, "file of API keys" in cause) == (1, True)
    status, cause = ended("-m", str(model), "--rerank")
    assert (status, "there is no reranking" in cause) == (2, True)


def test_a_file_that_lacks_a_tensor_fails_with_the_librarys_reason(
    tiny_models: Path, tmp_path: Path
) -> None:
    model = tmp_path / "renamed.gguf"
    raw = (tiny_models / "tiny-chat.gguf").read_bytes()
    model.write_bytes(raw.replace(b"output_norm.weight", b"output_none.weight"))
    with worker(tmp_path, model, environ=ENVIRON) as pod:
        error = pod.until_state("failed")["error"]
        assert error["reason"] == "EngineFailed"
        assert "output_norm.weight" in error["message"]


def test_the_key_guards_all_but_health(tiny_models: Path, tmp_path: Path) -> None:
    with engine(tiny_models / "tiny-chat.gguf", tmp_path) as (client, _):
        client.headers.pop("Authorization")
        assert client.get("/health").json() == {"status": "ok"}
        for path in ("/v1/models", "/props", "/slots", "/metrics", "/docs", "/openapi.json"):
            assert client.get(path).status_code == 401, path
        assert client.post("/v1/completions", json={"prompt": "a"}).status_code == 401
        client.headers["Authorization"] = f"Bearer {KEY}"
        for path in ("/docs", "/openapi.json", "/extras/tokenize", "/"):
            assert client.get(path).status_code == 404, path
        assert client.post("/v1/embeddings", json={"input": "a"}).status_code == 501
        assert client.post("/v1/rerank", json={}).status_code == 501
        assert client.get("/v1/models").json()["data"][0]["id"] == "team/tiny"


def test_bodies_that_it_cannot_work_on(tiny_models: Path, tmp_path: Path) -> None:
    with engine(tiny_models / "tiny-chat.gguf", tmp_path, "-c", "512") as (client, _):
        for path, body, word in (
            ("/v1/completions", {"prompt": ["a", "b"]}, "prompt"),
            ("/v1/completions", {"prompt": 3}, "prompt"),
            ("/v1/completions", {"prompt": "a", "logprobs": 2}, "logprobs"),
            ("/v1/completions", {"prompt": "x" * 3000}, "maximum context length is 512"),
            ("/v1/completions", {"prompt": "x" * 3000, "stream": True}, "exceed"),
            ("/v1/chat/completions", {"messages": "SECRET"}, "messages"),
        ):
            answer = client.post(path, json=body)
            assert answer.status_code == 400, answer.text
            assert word in answer.json()["error"]["message"]
        assert client.post("/v1/completions", content=b"{").status_code == 400
        assert client.post("/v1/completions", json={"prompt": "a"}).status_code == 200
    assert "SECRET" not in (tmp_path / "engine.log").read_text()


def test_another_seed_for_each_call_and_the_same_when_asked(
    tiny_models: Path, tmp_path: Path
) -> None:
    with engine(tiny_models / "tiny-chat.gguf", tmp_path) as (client, _):

        def text(**members: Any) -> str:
            body = {"prompt": "abc", "max_tokens": 24, "temperature": 1.5} | members
            told = client.post("/v1/completions", json=body).json()["choices"][0]["text"]
            return str(told)

        assert len({text() for _ in range(4)}) > 1
        assert len({text(seed=3) for _ in range(3)}) == 1


def test_a_caller_that_leaves_frees_the_slot(tiny_models: Path, tmp_path: Path) -> None:
    with engine(tiny_models / "tiny-chat.gguf", tmp_path, "-c", "2048") as (client, _):
        # Letters: bytes that are no text hold a stream back, and nobody is missed meanwhile.
        letters = "root ::= [a-z]+"
        body = {"prompt": "abc", "max_tokens": 1900, "stream": True, "grammar": letters}
        with client.stream("POST", "/v1/completions", json=body) as stream:
            next(stream.iter_lines())
            assert client.get("/slots").json()[0]["is_processing"] is True
        until(lambda: not client.get("/slots").json()[0]["is_processing"], "a free slot", 5)


def test_a_second_stream_waits_and_does_not_end_the_first(
    tiny_models: Path, tmp_path: Path
) -> None:
    with engine(tiny_models / "tiny-chat.gguf", tmp_path) as (client, _):
        body = {"prompt": "abc", "max_tokens": 200, "stream": True}
        texts: list[str] = []

        def ask() -> None:
            texts.append(client.post("/v1/completions", json=body).text)

        askers = [threading.Thread(target=ask) for _ in range(3)]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()
        assert len(texts) == 3
        assert all(text.rstrip().endswith("data: [DONE]") for text in texts)
        ends = ('"finish_reason": "length"', '"finish_reason": "stop"')
        assert all(any(end in text for end in ends) for text in texts)


def test_health_is_answered_while_it_works(tiny_models: Path, tmp_path: Path) -> None:
    with engine(tiny_models / "tiny-chat.gguf", tmp_path) as (client, process):
        body = {"prompt": "abc", "max_tokens": 1500, "stream": True}
        with client.stream("POST", "/v1/completions", json=body) as stream:
            next(stream.iter_lines())
            port = int(process.cmdline()[process.cmdline().index("--port") + 1])
            assert asyncio.run(EngineClient("127.0.0.1", port, KEY).health()) == 200


def test_sigterm_ends_it_at_once(tiny_models: Path, tmp_path: Path) -> None:
    with engine(tiny_models / "tiny-chat.gguf", tmp_path) as (client, process):
        body = {"prompt": "abc", "max_tokens": 1900, "stream": True}
        with client.stream("POST", "/v1/completions", json=body) as stream:
            next(stream.iter_lines())
            began = time.monotonic()
            process.terminate()
            until(lambda: not is_running(process.pid), "its end", 2)
            assert time.monotonic() - began < 1


def test_variables_of_the_environment_change_no_setting(
    tiny_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("N_CTX", "64")
    monkeypatch.setenv("LORA_PATH", "/nowhere")
    monkeypatch.setenv("CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("API_KEY", "another")
    with engine(tiny_models / "tiny-chat.gguf", tmp_path, "-c", "512") as (client, _):
        assert client.get("/slots").json()[0]["n_ctx"] == 512
        answer = client.post("/v1/completions", json={"prompt": "a", "max_tokens": 1})
        assert answer.status_code == 200


def test_the_lengths_of_vectors_are_one(tiny_models: Path, tmp_path: Path) -> None:
    with engine(tiny_models / "tiny-embed.gguf", tmp_path, "--embeddings") as (client, _):
        (entry,) = client.post("/v1/embeddings", json={"input": "abc"}).json()["data"]
        assert math.isclose(math.hypot(*entry["embedding"]), 1, abs_tol=1e-5)
