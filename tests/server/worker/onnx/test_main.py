"""The engine as a process: its flags, its end, and what its log says of it."""

from __future__ import annotations

import signal
import socket
import subprocess
from pathlib import Path

import httpx
import pytest

from pumas_server.worker.engine_log import EngineLog, exit_sentence
from support.onnx_engine import COMMAND, onnx_engine
from support.tiny_onnx import TinyOnnx
from support.worker import KEY, free_ports, until


def ended(*flags: str) -> tuple[int, str]:
    """How an engine with these flags ends, and the cause that its log gives."""
    run = subprocess.run([*COMMAND, *flags], capture_output=True, timeout=60)
    log = EngineLog(Path("/models/tiny"))
    log.feed(run.stderr)
    log.eof()
    assert not run.returncode or log.cause() or run.returncode == 2
    return run.returncode, exit_sentence(run.returncode, log.cause())


@pytest.mark.parametrize(
    "flags",
    [
        ["-m", "a", "--threads-http", "4"],
        ["-m", "a", "-t", "0"],
        ["-m", "a", "-np", "257"],
        ["-m", "a", "--port", "65536"],
        ["-m", "a", "--device", "tpu"],
        ["-m", "a", "--mode", "generate"],
        [],
    ],
)
def test_flags_that_it_does_not_take(flags: list[str]) -> None:
    assert ended(*flags)[0] == 2


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    port = str(free_ports(1)[0])
    assert ended("-m", str(tmp_path / "no" / "model.onnx"), "--port", port) == (
        1,
        "The engine ended with exit code 1: the model's file config.json is not there.",
    )


def test_a_model_for_another_mode(tiny_onnx: TinyOnnx) -> None:
    port = str(free_ports(1)[0])
    flags = ("-m", str(tiny_onnx.root / "mean"), "--port", port, "--mode", "rerank")
    assert ended(*flags) == (
        1,
        "The engine ended with exit code 1:"
        " the model is of the kind embedder, which does not rerank.",
    )


def test_cuda_that_is_not_there_is_not_served_from_the_cpu(tiny_onnx: TinyOnnx) -> None:
    port = str(free_ports(1)[0])
    flags = ("-m", str(tiny_onnx.root / "mean"), "--port", port, "--device", "cuda")
    code, sentence = ended(*flags)
    assert code == 1
    assert "CUDA was asked for, but" in sentence


def test_a_port_that_is_taken(tiny_onnx: TinyOnnx) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        flags = ("-m", str(tiny_onnx.root / "mean"), "--port", str(port))
        assert ended(*flags) == (
            1,
            f"The engine ended with exit code 1: port {port} cannot be listened on:"
            " Address already in use.",
        )


def test_keys_that_cannot_be_read(tmp_path: Path) -> None:
    empty = tmp_path / "keys"
    empty.write_text("# none\n\n")
    assert "holds no key" in ended("-m", "a", "--api-key-file", str(empty))[1]
    assert "cannot be read" in ended("-m", "a", "--api-key-file", str(tmp_path / "no"))[1]


def test_weights_by_their_own_path_and_auto_device(tiny_onnx: TinyOnnx, tmp_path: Path) -> None:
    weights = tiny_onnx.root / "mean" / "onnx" / "model.onnx"
    with onnx_engine(weights, tmp_path, "--device", "auto", "-np", "3") as client:
        props = client.get("/props").json()
        assert (props["device"], props["total_slots"]) == ("cpu", 3)
        assert props["build_info"].startswith("onnxruntime 1.")
        assert len(client.post("/v1/embeddings", json={"input": "a"}).json()["data"]) == 1


def test_sigterm_ends_it_at_once(tiny_onnx: TinyOnnx, tmp_path: Path) -> None:
    port = free_ports(1)[0]
    key = tmp_path / "key"
    key.write_text(KEY)
    flags = ["-m", str(tiny_onnx.root / "mean"), "--port", str(port), "--api-key-file", str(key)]
    with subprocess.Popen([*COMMAND, *flags]) as process:
        try:

            def answers() -> bool:
                try:
                    return bool(httpx.get(f"http://127.0.0.1:{port}/health").status_code)
                except httpx.TransportError:
                    return False

            until(answers, "an engine that listens")
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
        finally:
            process.kill()
