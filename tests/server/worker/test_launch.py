"""The engine's command line: what each mode, setting and file puts into it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pumas_crds.engine import Engine
from pumas_crds.facts import FileFacts
from pumas_crds.source import Source
from pumas_crds.vocabulary import EngineMode, Runtime, pod_in_flight
from pumas_crds.worker_spec import WorkerSpec
from pumas_server.worker.engine import WHEEL_ARGUMENTS, EngineProgram
from pumas_server.worker.launch import (
    LaunchSettings,
    build_engine_command,
    describe_less_context,
    select_context_tokens,
    select_cpus,
    select_refused_argument,
    select_slots,
)

SETTINGS = LaunchSettings("10.0.0.7", 8080, Path("/run/pumas/key/engine-key"), cpus=3)
FILE = FileFacts(architecture="llama", context_tokens=32_768)


def spec(**engine: Any) -> WorkerSpec:
    return WorkerSpec(
        alias="team/chat",
        runtime=Runtime.LLAMA_CPP,
        source=Source(path="/models/chat.gguf"),
        engine=Engine(**engine),
    )


def command(mode: EngineMode, file: FileFacts = FILE, **engine: Any) -> list[str]:
    program = EngineProgram(("llama-server",))
    return build_engine_command(program, spec(**engine), mode, file, SETTINGS)


def value(command: list[str], flag: str) -> str:
    assert command.count(flag) == 1, f"{flag} in {command}"
    return command[command.index(flag) + 1]


def test_where_a_device_may_be_the_engine_fits_itself_to_it() -> None:
    program, there = EngineProgram(("llama-server",)), replace(SETTINGS, device=True)
    assert "--fit" not in build_engine_command(program, spec(), EngineMode.GENERATE, FILE, there)


def test_the_whole_command_of_a_generating_engine() -> None:
    assert command(EngineMode.GENERATE, context_tokens=1024, parallel=2) == [
        "llama-server",
        "-m",
        "/models/chat.gguf",
        "-a",
        "team/chat",
        "--host",
        "10.0.0.7",
        "--port",
        "8080",
        "--api-key-file",
        "/run/pumas/key/engine-key",
        "-c",
        "2048",
        "-np",
        "2",
        "-kvu",
        "--kv-unified-per-slot",
        "1024",
        "--cache-ram",
        "512",
        "--metrics",
        "--slots",
        "--jinja",
        "--no-context-shift",
        "--no-ui",
        "--offline",
        "--threads-http",
        "32",
        "--timeout",
        "31536000",
        "-t",
        "3",
        "--fit",
        "off",
    ]


@pytest.mark.parametrize(
    ("mode", "flags", "others"),
    [
        (EngineMode.EMBED, ["--embeddings"], ["--rerank"]),
        (EngineMode.RERANK, ["--rerank"], ["--embeddings", "--pooling"]),
        (EngineMode.DECIDE, [], ["--rerank", "--embeddings", "--pooling"]),
    ],
)
def test_engines_that_read_only(mode: EngineMode, flags: list[str], others: list[str]) -> None:
    built = command(mode, context_tokens=512)
    assert (value(built, "-b"), value(built, "-ub"), value(built, "-c")) == ("512", "512", "512")
    assert (value(built, "-np"), value(built, "--cache-ram")) == ("1", "0")
    assert set(flags) <= set(built)
    assert not set(others) & set(built)


def test_generation_keeps_the_engines_own_batches() -> None:
    assert not {"-b", "-ub", "--embeddings", "--rerank"} & set(command(EngineMode.GENERATE))


@pytest.mark.parametrize(
    ("pooling", "flag"),
    [("mean", None), ("cls", None), ("last", None), ("", "mean"), ("none", "mean")],
)
def test_an_embedder_whose_file_names_no_pooling_gets_one(pooling: str, flag: str | None) -> None:
    file = FILE.model_copy(update={"pooling": pooling})
    built = command(EngineMode.EMBED, file)
    assert (value(built, "--pooling") if "--pooling" in built else None) == flag


@pytest.mark.parametrize(
    ("setting", "flag", "text"),
    [
        ({"gpu_layers": 0}, "-ngl", "0"),
        ({"flash_attention": "on"}, "-fa", "on"),
        ({"cache_type_k": "q8_0"}, "-ctk", "q8_0"),
        ({"cache_type_v": "bf16"}, "-ctv", "bf16"),
        ({"chat_template": "{{ messages }}"}, "--chat-template", "{{ messages }}"),
    ],
)
def test_each_setting_has_its_flag_and_is_absent_by_default(
    setting: dict[str, Any], flag: str, text: str
) -> None:
    assert value(command(EngineMode.GENERATE, **setting), flag) == text
    assert flag not in command(EngineMode.GENERATE)


def test_further_arguments_stand_last_each_with_its_value_as_a_word_of_its_own() -> None:
    asked = ("--rope-freq-base=1e6", "--swa-full", "--tensor-split=3,1")
    built = command(EngineMode.GENERATE, gpu_layers=3, extra_args=asked)
    assert built[-7:] == [
        "-ngl",
        "3",
        "--rope-freq-base",
        "1e6",
        "--swa-full",
        "--tensor-split",
        "3,1",
    ]
    assert command(EngineMode.GENERATE, extra_args=()) == command(EngineMode.GENERATE)


@pytest.mark.parametrize(
    ("taken", "asked", "refused"),
    [
        (None, ("--rope-new=1",), None),
        (WHEEL_ARGUMENTS, None, None),
        (WHEEL_ARGUMENTS, ("--swa-full", "--cache-reuse=1"), None),
        (WHEEL_ARGUMENTS, ("--swa-full", "--rope-new=1", "--yarn-new=1"), "--rope-new"),
    ],
)
def test_an_argument_that_the_program_does_not_take(
    taken: frozenset[str] | None, asked: tuple[str, ...] | None, refused: str | None
) -> None:
    program = EngineProgram(("engine",), extra_arguments=taken)
    assert select_refused_argument(program, spec(extra_args=asked)) == refused


def test_a_fetched_file_is_loaded_from_the_cache() -> None:
    fetched = spec().model_copy(
        update={"source": Source.model_validate({"http": {"url": "http://h/m.gguf"}})}
    )
    settings = replace(SETTINGS, models="/cache")
    built = build_engine_command(
        EngineProgram(("llama-server",)), fetched, EngineMode.GENERATE, FILE, settings
    )
    assert value(built, "-m") == fetched.weights_file("/cache")
    assert value(built, "-m").startswith("/cache/source-")


@pytest.mark.parametrize(
    ("asked", "trained", "tokens"),
    [
        (None, 0, 8192),
        (None, 2048, 2048),
        (None, 131_072, 8192),
        (16_384, 131_072, 16_384),
        (16_384, 2048, 2048),
        (16_384, 0, 16_384),
    ],
)
def test_context_of_a_slot(asked: int | None, trained: int, tokens: int) -> None:
    file = FileFacts(architecture="llama", context_tokens=trained)
    assert select_context_tokens(spec(context_tokens=asked), file) == tokens


@pytest.mark.parametrize(
    ("asked", "trained", "told"),
    [
        (
            1_000_000,
            2048,
            "engine.contextTokens is 1000000; the model was trained with 2048, which it gets.",
        ),
        (2048, 2048, None),
        (1024, 2048, None),
        (1_000_000, 0, None),
        (None, 2048, None),
    ],
)
def test_less_context_than_was_asked_for_is_told(
    asked: int | None, trained: int, told: str | None
) -> None:
    file = FileFacts(architecture="llama", context_tokens=trained)
    assert describe_less_context(spec(context_tokens=asked), file) == told


def test_slots() -> None:
    assert select_slots(spec(), EngineMode.GENERATE) == 4
    assert select_slots(spec(), EngineMode.EMBED) == 1
    assert select_slots(spec(parallel=3), EngineMode.EMBED) == 3


def test_there_are_threads_for_every_admitted_call_and_for_probes() -> None:
    assert pod_in_flight(4) == 32
    assert value(command(EngineMode.GENERATE), "--threads-http") == "40"


@pytest.mark.parametrize(
    ("schedulable", "quota", "cpus"),
    [
        (8, "", 8),
        (8, "max 100000\n", 8),
        (8, "200000 100000\n", 2),
        (8, "250000 100000\n", 3),
        (2, "800000 100000\n", 2),
        (8, "1000 100000\n", 1),
        (8, "what is this", 8),
        (0, "", 1),
    ],
)
def test_cpus_are_bounded_by_the_quota(schedulable: int, quota: str, cpus: int) -> None:
    assert select_cpus(schedulable, quota) == cpus


def test_a_projector_stands_beside_the_model() -> None:
    seeing = spec().model_copy(update={"projector": Source(path="/models/eyes.gguf")})
    program = EngineProgram(("llama-server",))
    for mode in (EngineMode.GENERATE, EngineMode.EMBED, EngineMode.DECIDE):
        built = build_engine_command(program, seeing, mode, FILE, SETTINGS)
        assert value(built, "--mmproj") == "/models/eyes.gguf"
        assert "--mmproj" not in command(mode)
    fetched = Source.model_validate({"http": {"url": "http://h/eyes.gguf"}})
    seeing = spec().model_copy(update={"projector": fetched})
    built = build_engine_command(
        program, seeing, EngineMode.GENERATE, FILE, replace(SETTINGS, models="/cache")
    )
    assert value(built, "--mmproj").startswith("/cache/source-")
    assert value(built, "--mmproj").endswith("/eyes.gguf")
