"""Serving pods as they run: the real supervisor, the real engine, tiny models."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from pumas_crds.vocabulary import pod_in_flight
from support.worker import DEADLINE_SECONDS, KEY, Worker, free_ports, is_running, until, worker

MODES: list[tuple[str, str, dict[str, Any], tuple[str, dict[str, Any]]]] = [
    (
        "tiny-chat",
        "generate",
        {"context_tokens": 2048, "slots": 4, "output_modalities": ["text"], "embedding_width": 0},
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 2}),
    ),
    (
        "tiny-embed",
        "embed",
        {"context_tokens": 512, "slots": 1, "output_modalities": ["vector"], "embedding_width": 64},
        ("/v1/embeddings", {"input": ["a", "b"]}),
    ),
    (
        "tiny-rerank",
        "rerank",
        {"context_tokens": 512, "slots": 1, "output_modalities": ["json"], "embedding_width": 0},
        ("/v1/rerank", {"query": "a", "documents": ["a", "b"]}),
    ),
    (
        "tiny-decision",
        "decide",
        {"context_tokens": 1024, "slots": 1, "output_modalities": ["json"], "embedding_width": 0},
        (
            "/v1/systemone",
            {
                "state": "a",
                "questions": {
                    "q": {"type": "choice", "instructions": "a", "criteria": {"x": None, "y": None}}
                },
            },
        ),
    ),
]


@pytest.mark.parametrize(("name", "mode", "facts", "call"), MODES, ids=[row[1] for row in MODES])
def test_each_mode_becomes_ready_and_tells_the_truth(
    tiny_models: Path,
    tmp_path: Path,
    name: str,
    mode: str,
    facts: dict[str, Any],
    call: tuple[str, dict[str, Any]],
) -> None:
    with worker(tmp_path, tiny_models / f"{name}.gguf", specHash="h-1") as pod:
        told = pod.until_state("ready")
        assert (told["mode"], told["spec_hash"], told["restarts"]) == (mode, "h-1", 0)
        assert told["error"] is None
        assert told["boot_id"]
        assert told["file"]["name"] == name
        runtime = told["runtime"]
        assert {key: runtime[key] for key in facts} == facts
        assert runtime["input_modalities"] == ["text"]
        assert runtime["build"].startswith("xllamacpp 20")
        assert runtime["device"] == "cpu"
        answer = pod.get("/readyz")
        assert answer is not None
        assert answer.status_code == 200
        assert pod.ask_engine(*call).status_code == 200
        assert httpx.get(pod.engine + "/slots").status_code == 401
        assert pod.terminate()[0] == 0


def test_settings_reach_the_engine(tiny_models: Path, tmp_path: Path) -> None:
    engine = {"contextTokens": 512, "parallel": 2, "chatTemplate": "MINE"}
    with worker(tmp_path, tiny_models / "tiny-chat.gguf", engine=engine) as pod:
        runtime = pod.until_state("ready")["runtime"]
        assert (runtime["context_tokens"], runtime["slots"]) == (512, 2)
        headers = {"Authorization": f"Bearer {KEY}"}
        props = httpx.get(pod.engine + "/props", headers=headers).json()
        assert (props["chat_template"], props["model_alias"]) == ("MINE", "tiny")


def test_more_context_than_the_model_has_is_told_of_in_the_log(
    tiny_models: Path, tmp_path: Path
) -> None:
    engine = {"contextTokens": 1_000_000}
    with worker(tmp_path, tiny_models / "tiny-chat.gguf", engine=engine) as pod:
        assert pod.until_state("ready")["runtime"]["context_tokens"] == 2048
        told = "engine.contextTokens is 1000000; the model was trained with 2048, which it gets."
        assert f"supervisor: {told}\n" in pod.log


def test_a_fetched_file_is_served_from_the_cache(tiny_models: Path, tmp_path: Path) -> None:
    cached = tmp_path / "models" / f"sha256-{'a5' * 32}" / "tiny.gguf"
    cached.parent.mkdir(parents=True)
    cached.symlink_to(tiny_models / "tiny-chat.gguf")
    source = {"http": {"url": "http://files.example/tiny.gguf"}}
    environ = {"PUMAS_MODELS": str(tmp_path / "models")}
    with worker(tmp_path, cached, source=source, sha256="a5" * 32, environ=environ) as pod:
        assert pod.until_state("ready")["file"]["architecture"] == "llama"


def test_a_flag_that_the_engine_does_not_take_is_refused_by_name(
    tiny_models: Path, tmp_path: Path
) -> None:
    engine = {"extraArgs": ["--swa-full", "--rope-new=1"]}
    with worker(tmp_path, tiny_models / "tiny-chat.gguf", engine=engine) as pod:
        assert pod.until_state("failed")["error"] == {
            "reason": "NotImplemented",
            "message": "The engine of this pod does not take --rope-new of engine.extraArgs.",
        }


def test_the_warm_up_comes_before_ready(tiny_models: Path, tmp_path: Path) -> None:
    with worker(tmp_path, tiny_models / "tiny-chat.gguf") as pod:
        pod.until_state("ready")
        headers = {"Authorization": f"Bearer {KEY}"}
        metrics = httpx.get(pod.engine + "/metrics", headers=headers).text
        line = next(line for line in metrics.splitlines() if "tokens_predicted_total " in line)
        assert line.split()[-1] != "0"


def test_a_killed_engine_is_told_and_started_again(tiny_models: Path, tmp_path: Path) -> None:
    with worker(tmp_path, tiny_models / "tiny-chat.gguf") as pod:
        before = pod.until_state("ready")
        os.kill(pod.engine_pid(), signal.SIGKILL)
        failed = until(lambda: told if (told := pod.descriptor())["error"] else None, "an error")
        assert failed["error"] == {
            "reason": "EngineFailed",
            "message": "The engine was ended by SIGKILL.",
        }
        # `starting` only if this test was slower than the back-off of a quarter of a second.
        assert failed["state"] in ("failed", "starting")
        after = pod.until_state("ready")
        assert (after["restarts"], after["error"]) == (1, None)
        assert after["boot_id"] != before["boot_id"]
        assert pod.ask_engine("/v1/completions", {"prompt": "a", "max_tokens": 1}).is_success


def test_a_file_that_only_the_engine_finds_bad(tiny_models: Path, tmp_path: Path) -> None:
    model = tmp_path / "a folder" / "bad.gguf"
    model.parent.mkdir()
    whole = (tiny_models / "tiny-chat.gguf").read_bytes()
    assert whole.count(b"output_norm.weight") == 1
    model.write_bytes(whole.replace(b"output_norm.weight", b"output_nrom.weight"))
    with worker(tmp_path, model) as pod:
        told = pod.until_state("failed")
        message = told["error"]["message"]
        assert told["error"]["reason"] == "EngineFailed"
        assert message.startswith("The engine ended with exit code 1: ")
        assert "output_norm.weight" in message
        assert "/" not in message
        assert told["runtime"] is None
        until(lambda: pod.descriptor()["restarts"] >= 2, "restarts")
        assert pod.terminate()[0] == 0


def test_a_file_that_is_refused_and_then_mended(tiny_models: Path, tmp_path: Path) -> None:
    model = tmp_path / "late.gguf"
    with worker(tmp_path, model) as pod:
        told = pod.until_state("failed")
        assert told["error"]["reason"] == "SourceUnreachable"
        assert str(tmp_path) not in told["error"]["message"]
        assert (told["boot_id"], told["restarts"]) == ("", 0)
        part = tmp_path / "part"
        part.write_bytes((tiny_models / "tiny-chat.gguf").read_bytes())
        part.rename(model)
        assert pod.until_state("ready")["error"] is None


@pytest.mark.parametrize("shares", [False, True], ids=["alone", "shares"])
def test_a_taken_port_ends_the_pod(tiny_models: Path, tmp_path: Path, shares: bool) -> None:
    """No engine is started beside a program that listens there already, even where it could be."""
    ports = free_ports(2)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, int(shares))
        taken.bind(("127.0.0.1", ports[0]))
        taken.listen()
        with worker(tmp_path, tiny_models / "tiny-chat.gguf", ports=ports) as pod:
            assert pod.process.wait(20) == 1
            assert told_to_the_kubelet(tmp_path) == {
                "reason": "EngineFailed",
                "message": f"The pod cannot serve: port {ports[0]}, the engine's, is another program's.",
            }
            assert "Traceback" not in pod.log


def test_a_taken_port_of_the_supervisor(tiny_models: Path, tmp_path: Path) -> None:
    ports = free_ports(2)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", ports[1]))
        taken.listen()
        with worker(tmp_path, tiny_models / "tiny-chat.gguf", ports=ports) as pod:
            assert pod.process.wait(20) == 1
            assert f"port {ports[1]} cannot be listened on" in pod.log
            assert "Traceback" not in pod.log


def test_an_engine_that_does_not_exist(tiny_models: Path, tmp_path: Path) -> None:
    environ = {"LLAMA_SERVER_BIN": str(tmp_path / "nowhere")}
    with worker(tmp_path, tiny_models / "tiny-chat.gguf", environ=environ) as pod:
        assert pod.process.wait(20) == 1
        assert (
            f"LLAMA_SERVER_BIN names no program that can be run here (it is '{tmp_path}" in pod.log
        )
    assert told_to_the_kubelet(tmp_path) == {
        "reason": "EngineFailed",
        "message": "The pod cannot serve: LLAMA_SERVER_BIN names no program that can be run here.",
    }


def told_to_the_kubelet(run: Path) -> dict[str, str]:
    error: dict[str, str] = json.loads((run / "termination-log").read_text())["error"]
    return error


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_idle_pod_at_once(
    tiny_models: Path, tmp_path: Path, number: signal.Signals
) -> None:
    with worker(tmp_path, tiny_models / "tiny-chat.gguf") as pod:
        pod.until_state("ready")
        engine = pod.engine_pid()
        began = time.monotonic()
        pod.process.send_signal(number)
        assert pod.process.wait(20) == 0
        assert time.monotonic() - began < 3
        assert not is_running(engine)
        assert "Traceback" not in pod.log


def test_a_signal_during_the_start(tiny_models: Path, tmp_path: Path) -> None:
    with worker(tmp_path, tiny_models / "tiny-chat.gguf") as pod:
        engine = pod.engine_pid()
        status, seconds = pod.terminate()
        assert (status, is_running(engine)) == (0, False)
        assert seconds < 3


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can tie a child's life")
def test_the_engine_does_not_outlive_its_supervisor(tiny_models: Path, tmp_path: Path) -> None:
    with worker(tmp_path, tiny_models / "tiny-chat.gguf") as pod:
        pod.until_state("ready")
        engine = pod.engine_pid()
        pod.process.kill()
        pod.process.wait()
        until(lambda: not is_running(engine), "the end of the engine", seconds=5)


class HalfSentCall:
    """A call whose second half is sent when we like: until then it holds one of the engine's
    threads, however fast the machine is."""

    def __init__(self, pod: Worker) -> None:
        body = json.dumps({"prompt": "a", "max_tokens": 1}).encode()
        head = (
            "POST /v1/completions HTTP/1.1\r\nHost: engine\r\nConnection: close\r\n"
            f"Authorization: Bearer {KEY}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        port = httpx.URL(pod.engine).port
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._socket.sendall(head.encode() + body[:5])
        self._rest = body[5:]

    def finish(self) -> bytes:
        """Send the rest; the status line of the answer."""
        with self._socket:
            self._socket.sendall(self._rest)
            answer = b""
            while chunk := self._socket.recv(65_536):
                answer += chunk
        return answer.partition(b"\r\n")[0]


def test_probes_are_answered_while_every_admitted_call_is_open(
    tiny_models: Path, tmp_path: Path
) -> None:
    with worker(tmp_path, tiny_models / "tiny-chat.gguf") as pod:
        slots = pod.until_state("ready")["runtime"]["slots"]
        calls = [HalfSentCall(pod) for _ in range(pod_in_flight(slots))]
        for _ in range(5):
            for url in (pod.supervisor + "/healthz", pod.engine + "/health"):
                assert httpx.get(url, timeout=2).status_code == 200
        assert pod.descriptor()["state"] == "ready"
        assert {call.finish() for call in calls} == {b"HTTP/1.1 200 OK"}


class Streams:
    """Streams that have begun on an engine, each read to its end by its own thread."""

    def __init__(self, pod: Worker, count: int, tokens: int) -> None:
        self.ended: list[str] = []
        self._begun = threading.Barrier(count + 1, timeout=20)
        self._question = {"prompt": "a", "max_tokens": tokens, "ignore_eos": True, "stream": True}
        self._url = pod.engine + "/v1/completions"
        self._threads = [threading.Thread(target=self._read) for _ in range(count)]
        for thread in self._threads:
            thread.start()
        self._begun.wait()

    def join(self) -> list[str]:
        """How each stream ended."""
        for thread in self._threads:
            thread.join(DEADLINE_SECONDS)
        return self.ended

    def _read(self) -> None:
        headers = {"Authorization": f"Bearer {KEY}"}
        text = ""
        try:
            with httpx.stream(
                "POST", self._url, json=self._question, headers=headers, timeout=20
            ) as answer:
                for piece in answer.iter_text():
                    if not text:
                        self._begun.wait()
                    text += piece
        except httpx.TransportError:
            text = ""
        self.ended.append("done" if "[DONE]" in text else "cut")


def test_a_stopping_pod_lets_running_calls_finish(tiny_models: Path, tmp_path: Path) -> None:
    with worker(tmp_path, tiny_models / "tiny-chat.gguf") as pod:
        pod.until_state("ready")
        engine = pod.engine_pid()
        streams = Streams(pod, count=4, tokens=300)
        os.kill(engine, signal.SIGSTOP)  # so that they run for as long as we look
        assert streams.ended == [], "the streams ended before the engine was stopped"
        pod.process.send_signal(signal.SIGTERM)
        told = until(lambda: told if (told := pod.descriptor())["busy"] else None, "busy slots")
        assert told["state"] == "draining"
        readiness = pod.get("/readyz")
        assert readiness is not None
        assert (readiness.status_code, readiness.json()["state"]) == (503, "draining")
        os.kill(engine, signal.SIGCONT)
        assert streams.join() == ["done"] * 4
        assert pod.process.wait(DEADLINE_SECONDS) == 0


@pytest.fixture
def frozen(tiny_models: Path, tmp_path: Path) -> Iterator[Worker]:
    """A pod whose engine was ready and then stopped dead, as by a very long computation."""
    with worker(tmp_path, tiny_models / "tiny-chat.gguf", drainSeconds=1) as pod:
        pod.until_state("ready")
        os.kill(pod.engine_pid(), signal.SIGSTOP)
        yield pod


def test_slow_is_not_dead_and_a_drain_has_an_end(frozen: Worker) -> None:
    until(lambda: frozen.descriptor()["busy"] == 1, "an engine that does not say how busy it is")
    told = frozen.descriptor()
    assert (told["state"], told["restarts"]) == ("ready", 0)
    engine = frozen.engine_pid()
    status, seconds = frozen.terminate()
    assert (status, is_running(engine)) == (0, False)
    # The drain, and the engine's grace: it cannot hear SIGTERM.
    assert 6 <= seconds < 12


def test_propagation_comes_before_the_drain(tiny_models: Path, tmp_path: Path) -> None:
    with worker(tmp_path, tiny_models / "tiny-chat.gguf", propagationSeconds=0.5) as pod:
        pod.until_state("ready")
        status, seconds = pod.terminate()
        # Two idle readings, half a second apart, after the propagation.
        assert status == 0
        assert 1.0 <= seconds < 3
