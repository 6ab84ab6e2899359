"""What an engine's output is taken to mean. The lines are real ones."""

from __future__ import annotations

from pathlib import PurePath

import pytest

from pumas_server.worker.engine_log import LINE_LIMIT, EngineLog, exit_sentence

MODEL = PurePath("/srv/my models/tiny chat.gguf")
FAILED_LOAD = b"""\
0.00.006.657 I srv    load_model: loading model '/srv/my models/tiny chat.gguf'
0.00.007.735 E llama_model_load: error loading model: missing tensor 'output_norm.weight'
0.00.007.765 E llama_model_load_from_file_impl: failed to load model
0.00.008.086 E srv    load_model: failed to load model, '/srv/my models/tiny chat.gguf'
0.00.009.979 E srv          init: exiting due to model loading error
"""


def cause(output: bytes, *, ready: bool = False) -> str:
    log = EngineLog(MODEL)
    if ready:
        log.ready()
    log.feed(output)
    log.eof()
    return log.cause()


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
def test_lines_do_not_depend_on_how_the_output_arrives(size: int) -> None:
    log = EngineLog(MODEL)
    lines = []
    for start in range(0, len(FAILED_LOAD), size):
        lines += log.feed(FAILED_LOAD[start : start + size])
    assert lines == FAILED_LOAD.decode().splitlines()
    assert log.cause() == "error loading model: missing tensor 'output_norm.weight'"


def test_a_line_has_a_bound_and_the_next_is_whole() -> None:
    log = EngineLog(MODEL)
    assert log.feed(b"x" * 1_000_000) == []
    assert log.feed(b"x\nnext\n") == ["x" * LINE_LIMIT + "…", "next"]


def test_the_last_line_needs_no_end() -> None:
    log = EngineLog(MODEL)
    assert log.feed(b"error: no") == []
    assert log.eof() == ["error: no"]
    assert log.eof() == []
    assert log.cause() == "no"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            b"0.00.007.266 E gguf_init_from_file: failed to open GGUF file '/srv/x y/a.gguf' (No)",
            "failed to open GGUF file [redacted] (No)",
        ),
        (
            b"0.00.007.468 E llama_model_load: failed to load from /srv/my models/tiny chat.gguf",
            "failed to load from tiny chat.gguf",
        ),
        (
            b"0.00.005.793 E srv         start: couldn't bind HTTP server socket,"
            b" hostname: 10.1.2.3, port: 8080",
            "couldn't bind HTTP server socket, hostname: [redacted], port: 8080",
        ),
        (
            b"/build/ggml/src/ggml.c:123: GGML_ASSERT(batch.size() > 0) failed",
            "GGML_ASSERT(batch.size() > 0) failed",
        ),
        (b"engine_xllama: error: unrecognized arguments: --x", "unrecognized arguments: --x"),
        (b"error: invalid argument: --x", "invalid argument: --x"),
        (b"0.00.017.079 W llama_context: an error: not one of level E", ""),
    ],
)
def test_what_counts_as_the_cause_and_how_it_is_told(line: bytes, expected: str) -> None:
    assert cause(line + b"\n") == expected


def test_once_it_serves_the_last_error_explains_the_end() -> None:
    output = b"0.1 E srv send_error: first\n0.2 E srv send_error: last\n"
    assert cause(output) == "first"
    assert cause(output, ready=True) == "last"


def test_complaints_while_loading_explain_nothing_later() -> None:
    log = EngineLog(MODEL)
    log.feed(FAILED_LOAD)
    log.ready()
    assert log.cause() == ""


@pytest.mark.parametrize(
    ("returncode", "cause", "sentence"),
    [
        (1, "no such tensor", "The engine ended with exit code 1: no such tensor."),
        (2, "", "The engine ended with exit code 2."),
        (0, "", "The engine ended with exit code 0."),
        (-6, "GGML_ASSERT(x) failed", "The engine was ended by SIGABRT: GGML_ASSERT(x) failed."),
        (-9, "a bad request an hour ago", "The engine was ended by SIGKILL."),
        (-250, "", "The engine was ended by signal 250."),
    ],
)
def test_sentences(returncode: int, cause: str, sentence: str) -> None:
    assert exit_sentence(returncode, cause) == sentence


@pytest.mark.parametrize(
    ("output", "device"),
    [
        (b"", ""),
        (b"engine_xllama: device: cpu\n", "cpu"),
        (b"0.01.2 I load_tensors: offloaded 24/36 layers to GPU\n", "gpu 24/36"),
        (b"0.01.2 I load_tensors: offloaded 0/36 layers to GPU\n", "cpu"),
        (b"0.01.2 I srv: the user said engine_xllama: device: cpu\n", ""),
    ],
)
def test_where_it_computes(output: bytes, device: str) -> None:
    log = EngineLog(MODEL)
    log.feed(output)
    assert log.device == device
