"""Every flag of the engine's command line acts, and nothing else is taken."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from pumas_server.worker.engine import WHEEL_ARGUMENTS
from pumas_server.worker.engine_xllama import build_params
from support.healthy import until_healthy
from support.worker import KEY, free_ports, until

COMMAND = [sys.executable, "-m", "pumas_server.worker.engine_xllama"]


@contextmanager
def engine(*flags: str) -> Iterator[httpx.Client]:
    port = free_ports(1)[0]
    process = subprocess.Popen(
        [*COMMAND, "--host", "127.0.0.1", "--port", str(port), *flags], stderr=subprocess.DEVNULL
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
            until_healthy(client, process)
            yield client
    finally:
        process.kill()
        process.wait()


def test_flags_that_an_engine_shows(tiny_models: Path, tmp_path: Path) -> None:
    key_file = tmp_path / "engine-key"
    key_file.write_text(f"# a comment\n{KEY}\n")
    flags = (
        f"-m {tiny_models / 'tiny-chat.gguf'} -a team/tiny --api-key-file {key_file} -c 2048 -np 4"
        " -kvu --kv-unified-per-slot 512 --metrics --slots --jinja --no-ui --offline"
        " --chat-template TEMPLATE -t 1 --threads-http 8"
    ).split(" ")
    with engine(*flags) as client:
        assert client.get("/slots").status_code == 401
        client.headers["Authorization"] = f"Bearer {KEY}"
        assert [slot["n_ctx"] for slot in client.get("/slots").json()] == [512] * 4
        assert client.get("/v1/models").json()["data"][0]["id"] == "team/tiny"
        assert client.get("/metrics").status_code == 200
        props = client.get("/props").json()
        assert (props["total_slots"], props["chat_template"]) == (4, "TEMPLATE")
        assert client.get("/").status_code == 404
        assert client.post("/v1/embeddings", json={"input": "a"}).status_code == 501


def test_flags_that_are_not_given_do_nothing(tiny_models: Path) -> None:
    with engine("-m", str(tiny_models / "tiny-chat.gguf"), "-c", "512") as client:
        assert client.get("/v1/models").status_code == 200
        assert client.get("/metrics").status_code == 501
        assert "im_start" in client.get("/props").json()["chat_template"]


def test_an_embedder_with_a_batch_that_is_too_small(tiny_models: Path) -> None:
    model = str(tiny_models / "tiny-embed.gguf")
    with engine("-m", model, "--embeddings", "-b", "64", "-ub", "64") as client:
        assert client.post("/v1/embeddings", json={"input": "a"}).status_code == 200
        refusal = client.post("/v1/embeddings", json={"input": "a" * 100})
        assert "batch size: 64" in refusal.json()["error"]["message"]


def test_a_reranker_and_a_pooling(tiny_models: Path) -> None:
    with engine("-m", str(tiny_models / "tiny-rerank.gguf"), "--rerank") as client:
        question = {"query": "a", "documents": ["a", "b"]}
        assert len(client.post("/v1/rerank", json=question).json()["results"]) == 2
    model = str(tiny_models / "tiny-embed.gguf")
    vectors = []
    for pooling in ("mean", "cls"):
        with engine("-m", model, "--embeddings", "--pooling", pooling) as client:
            answer = client.post("/v1/embeddings", json={"input": "abc"}).json()
            vectors.append(answer["data"][0]["embedding"])
    assert vectors[0] != vectors[1]


@pytest.mark.parametrize(
    ("flags", "field", "value"),
    [
        ("-ngl 7", "n_gpu_layers", 7),
        ("--mmproj eyes.gguf", "mmproj.path", "eyes.gguf"),
        ("--cache-ram 12", "cache_ram_mib", 12),
        ("--threads-http 9", "n_threads_http", 9),
        ("--no-context-shift", "ctx_shift", False),
        ("--offline", "offline", True),
        ("--jinja", "use_jinja", True),
        ("--timeout 31536000", "timeout_read", 31_536_000),
        ("--timeout 31536000", "timeout_write", 31_536_000),
        ("-t 3", "cpuparams.n_threads", 3),
        ("--fit off", "fit_params", False),
        ("--fit on", "fit_params", True),
        ("-t 3", "cpuparams_batch.n_threads", 3),
        ("-fa on", "flash_attn_type.name", "LLAMA_FLASH_ATTN_TYPE_ENABLED"),
        ("-fa off", "flash_attn_type.name", "LLAMA_FLASH_ATTN_TYPE_DISABLED"),
        ("-fa auto", "flash_attn_type.name", "LLAMA_FLASH_ATTN_TYPE_AUTO"),
        ("-ctk q8_0", "cache_type_k.name", "GGML_TYPE_Q8_0"),
        ("-ctv iq4_nl", "cache_type_v.name", "GGML_TYPE_IQ4_NL"),
        ("--rope-scaling yarn", "rope_scaling_type.name", "LLAMA_ROPE_SCALING_TYPE_YARN"),
        ("--rope-scale 4", "rope_freq_scale", 0.25),
        ("--rope-freq-scale 0.5", "rope_freq_scale", 0.5),
        ("--rope-freq-base 1e6", "rope_freq_base", 1e6),
        ("--yarn-orig-ctx 512", "yarn_orig_ctx", 512),
        ("--yarn-ext-factor 0.5", "yarn_ext_factor", 0.5),
        ("--yarn-attn-factor 0.5", "yarn_attn_factor", 0.5),
        ("--yarn-beta-slow 0.5", "yarn_beta_slow", 0.5),
        ("--yarn-beta-fast 0.5", "yarn_beta_fast", 0.5),
        ("--swa-full", "swa_full", True),
        ("--no-kv-offload", "no_kv_offload", True),
        ("--split-mode row", "split_mode.name", "LLAMA_SPLIT_MODE_ROW"),
        ("--main-gpu 1", "main_gpu", 1),
        ("--cache-reuse 256", "n_cache_reuse", 256),
        ("--reasoning-format none", "reasoning_format.name", "COMMON_REASONING_FORMAT_NONE"),
        (
            "--reasoning-format deepseek-legacy",
            "reasoning_format.name",
            "COMMON_REASONING_FORMAT_DEEPSEEK_LEGACY",
        ),
    ],
)
def test_flags_that_an_engine_does_not_show(flags: str, field: str, value: object) -> None:
    def read(params: object) -> object:
        for name in field.split("."):
            params = getattr(params, name)
        return params

    assert read(build_params(["-m", "x.gguf", *flags.split(" ")])) == value


def test_a_tensor_split_is_filled_up_for_the_devices_that_are_not_there() -> None:
    shares = build_params(["-m", "x.gguf", "--tensor-split", "3,1"]).tensor_split
    assert (shares[:3], set(shares[2:])) == ([3.0, 1.0, 0.0], {0.0})


def test_every_further_argument_that_it_says_it_takes_it_takes() -> None:
    values = {
        "--split-mode": "layer",
        "--rope-scaling": "linear",
        "--reasoning-format": "auto",
        "--swa-full": None,
        "--no-kv-offload": None,
    }
    for flag in sorted(WHEEL_ARGUMENTS):
        value = values.get(flag, "1")
        build_params(["-m", "x.gguf", flag, *([value] if value else [])])


def test_stretching_the_context_is_really_done(tiny_models: Path) -> None:
    model = str(tiny_models / "tiny-chat.gguf")
    answers = []
    for flags in ([], ["--rope-freq-base", "10.0"]):
        with engine("-m", model, "-c", "512", *flags) as client:
            body = {"prompt": "abc def ghi", "max_tokens": 16, "temperature": 0}
            answers.append(client.post("/v1/completions", json=body).json()["choices"][0]["text"])
    assert answers[0] != answers[1]


def test_a_quantised_cache_is_really_used(tiny_models: Path) -> None:
    """Values in 8 bits need flash attention: with it off the engine cannot start."""
    model = str(tiny_models / "tiny-chat.gguf")
    assert failure("-m", model, "-c", "512", "-fa", "off", "-ctv", "q8_0") == 1


def failure(*flags: str) -> int:
    return subprocess.run([*COMMAND, *flags], stderr=subprocess.DEVNULL, timeout=20).returncode


@pytest.mark.parametrize(
    "flags",
    [
        ["--no-such-flag"],
        ["-ctk", "q9"],
        ["--metric"],
        ["stray"],
        ["--rope-new", "1"],
        ["--rope-scale", "0"],
        ["--tensor-split", "x"],
        ["--tensor-split", ",".join(["1"] * 129)],
        ["--split-mode", "diagonal"],
    ],
)
def test_an_unknown_flag_is_refused(flags: list[str]) -> None:
    assert failure("-m", "x.gguf", *flags) == 2


def test_a_bad_file(tmp_path: Path) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF" + b"\0" * 100)
    assert failure("-m", str(bad)) == 1
    assert failure("-m", str(tmp_path / "absent.gguf")) == 1


def test_a_key_file_that_is_not_there(tiny_models: Path, tmp_path: Path) -> None:
    model = str(tiny_models / "tiny-chat.gguf")
    assert failure("-m", model, "--api-key-file", str(tmp_path / "absent")) == 1


def test_sigterm_ends_it_at_once(tiny_models: Path) -> None:
    port = free_ports(1)[0]
    model = str(tiny_models / "tiny-chat.gguf")
    process = subprocess.Popen(
        [*COMMAND, "-m", model, "--port", str(port)], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    until(lambda: "listening" in (process.stderr.readline() if process.stderr else ""), "up")
    began = time.monotonic()
    process.terminate()
    process.communicate()
    assert time.monotonic() - began < 1
