"""Every flag of `launch` acts or is refused; none is taken and forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pumas_crds.engine import Engine
from pumas_crds.facts import FileFacts
from pumas_crds.source import Source
from pumas_crds.vocabulary import EngineMode, Runtime
from pumas_crds.worker_spec import WorkerSpec
from pumas_server.worker.engine import (
    LLAMA_CPP_PYTHON_ARGUMENTS,
    LLAMA_CPP_PYTHON_LIMITS,
    EngineProgram,
)
from pumas_server.worker.launch import LaunchSettings, build_engine_command
from pumas_server.worker.llama_cpp_python.flags import model_settings, read_flags

PROGRAM = EngineProgram((), limits=LLAMA_CPP_PYTHON_LIMITS)
SETTINGS = LaunchSettings("10.0.0.7", 8123, Path("/run/key"), cpus=3)
FILE = FileFacts(architecture="llama", context_tokens=1024, pooling="mean")


def command(mode: EngineMode, **engine: Any) -> list[str]:
    spec = WorkerSpec(
        alias="team/tiny",
        runtime=Runtime.LLAMA_CPP,
        source=Source(path="/models/a.gguf"),
        engine=Engine(**engine),
    )
    return build_engine_command(PROGRAM, spec, mode, FILE, SETTINGS)


def settings(*flags: str) -> dict[str, object]:
    return model_settings(read_flags(["-m", "a.gguf", *flags]))


def test_the_command_of_a_generating_engine() -> None:
    flags = read_flags(command(EngineMode.GENERATE))
    assert (flags.host, flags.port, flags.api_key_file) == ("10.0.0.7", 8123, Path("/run/key"))
    assert flags.threads_http == 28
    told = model_settings(flags)
    assert (told["model"], told["model_alias"]) == ("/models/a.gguf", "team/tiny")
    assert (told["n_ctx"], told["n_batch"], told["n_ubatch"]) == (1024, 512, 512)
    assert (told["n_threads"], told["n_threads_batch"]) == (3, 3)
    assert (told["embedding"], told["n_gpu_layers"], told["cache"]) == (False, -1, False)


def test_the_command_of_an_embedding_engine() -> None:
    told = model_settings(read_flags(command(EngineMode.EMBED)))
    assert (told["embedding"], told["n_batch"], told["n_ubatch"]) == (True, 1024, 1024)


@pytest.mark.parametrize(
    ("flags", "field", "value"),
    [
        ("-ngl 7", "n_gpu_layers", 7),
        ("-fa on", "flash_attn", True),
        ("-fa off", "flash_attn", False),
        ("-ctk q8_0", "type_k", 8),
        ("-ctv iq4_nl", "type_v", 20),
        ("--split-mode row", "split_mode", 2),
        ("--main-gpu 1", "main_gpu", 1),
        ("--tensor-split 3,1", "tensor_split", [3.0, 1.0]),
        ("--no-kv-offload", "offload_kqv", False),
        ("--rope-scaling yarn", "rope_scaling_type", 2),
        ("--rope-scale 4", "rope_freq_scale", 0.25),
        ("--rope-freq-scale 0.5", "rope_freq_scale", 0.5),
        ("--rope-freq-base 1e6", "rope_freq_base", 1e6),
        ("--yarn-orig-ctx 512", "yarn_orig_ctx", 512),
        ("--yarn-ext-factor 0.5", "yarn_ext_factor", 0.5),
        ("--yarn-attn-factor 0.5", "yarn_attn_factor", 0.5),
        ("--yarn-beta-slow 0.5", "yarn_beta_slow", 0.5),
        ("--yarn-beta-fast 0.5", "yarn_beta_fast", 0.5),
        ("-c 64 -b 32", "n_ubatch", 32),
        ("-b 64 -ub 16", "n_ubatch", 16),
    ],
)
def test_flags_that_are_settings(flags: str, field: str, value: object) -> None:
    assert settings(*flags.split(" "))[field] == value


def test_a_flag_that_is_not_given_leaves_the_librarys_default() -> None:
    assert not {"type_k", "rope_freq_base", "tensor_split", "yarn_ext_factor"} & settings().keys()


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("-np 2", "one call is worked on at a time"),
        ("-c 64 --kv-unified-per-slot 32", "there is one slot"),
        ("--cache-ram 512", "prompts are kept in no bounded memory"),
        ("--timeout 60", "there is no deadline"),
        ("-b 32 -ub 64", "-ub is at most -b"),
        ("--mmproj x.gguf", "there are no projectors"),
        ("--chat-template x", "the chat template is the file's"),
        ("--pooling mean", "the pooling is the one that the file states"),
        ("--rerank", "there is no reranking"),
        ("--swa-full", "cannot be set"),
        ("--cache-reuse 8", "no reuse of shifted prompts"),
        ("--reasoning-format none", "reasoning is not taken apart"),
        ("-fa auto", "invalid choice: 'auto'"),
        ("--fit on", "invalid choice: 'on'"),
        ("--split-mode tensor", "invalid choice: 'tensor'"),
        ("--rope-scale 0", "invalid _factor value"),
        ("--rope-scale nan", "invalid _factor value"),
        ("--tensor-split " + ",".join("1" * 17), "invalid _shares value"),
        ("-t 0", "invalid number value"),
        ("-c 99999999", "invalid number value"),
        ("--no-such-flag", "unrecognized arguments"),
        ("--metric", "unrecognized arguments"),
    ],
)
def test_flags_that_are_refused(
    flags: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        settings(*flags.split(" "))
    assert end.value.code == 2
    assert sentence in capsys.readouterr().err


def test_every_further_argument_that_it_says_it_takes_it_takes() -> None:
    values = {"--split-mode": "layer", "--rope-scaling": "linear", "--no-kv-offload": None}
    for flag in sorted(LLAMA_CPP_PYTHON_ARGUMENTS):
        value = values.get(flag, "1")
        assert settings(flag, *([value] if value else [])) != settings() or value in ("layer", "1")
