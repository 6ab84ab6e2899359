"""Settings of the engine by runtime; of its further flags an allow-list without files, addresses."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from pumas_crds.engine import (
    IMAGE_SETTINGS,
    LLAMA_CPP_SETTINGS,
    ONNX_RUNTIME_SETTINGS,
    Engine,
)
from pumas_crds.served_model import ServedModel


@pytest.mark.parametrize(
    "argument",
    [
        "--rope-scaling=yarn",
        "--rope-freq-base=1e6",
        "--yarn-ext-factor=-1.0",
        "--swa-full",
        "--no-kv-offload",
        "--split-mode=row",
        "--main-gpu=1",
        "--tensor-split=3,1",
        "--reasoning-format=deepseek-legacy",
        "--cache-reuse=256",
    ],
)
def test_what_is_taken(argument: str) -> None:
    assert Engine.model_validate({"extraArgs": [argument]}).extra_args == (argument,)


@pytest.mark.parametrize(
    "argument",
    [
        "",
        "swa-full",
        "-ngl",
        "--host=0.0.0.0",
        "--port=1",
        "--model=x",
        "-m=x",
        "--api-key=x",
        "--api-key-file=x",
        "--slot-save-path=x",
        "--rope-scaling",
        "--rope-scaling yarn",
        "--rope-=1",
        "--rope-x=/etc/passwd",
        "--swa-full=1",
        "--split-mode=row --port=1",
        "--split-mode=",
        "--main-gpu=1\n",
        "--swa-full\n",
        "--tensor-split=3/1",
        "--cache-reuse=$(x)",
        "--rope-scale=" + "1" * 128,
    ],
)
def test_what_is_refused(argument: str) -> None:
    with pytest.raises(ValidationError, match="extraArgs"):
        Engine.model_validate({"extraArgs": [argument]})


def test_unset_is_not_empty_so_that_a_profiles_list_can_be_replaced_by_none() -> None:
    assert Engine().extra_args is None
    assert Engine.model_validate({"extraArgs": []}).model_dump(exclude_none=True) == {
        "extra_args": ()
    }


def test_sixteen_at_the_most() -> None:
    with pytest.raises(ValidationError, match="at most 16"):
        Engine.model_validate({"extraArgs": ["--swa-full"] * 17})


#: A value of each setting.
SETTINGS: dict[str, object] = {
    "context_tokens": 512,
    "parallel": 2,
    "gpu_layers": 1,
    "flash_attention": "on",
    "cache_type_k": "q8_0",
    "cache_type_v": "q8_0",
    "chat_template": "x",
    "device": "cpu",
    "steps": 4,
    "guidance_percent": 750,
    "extra_args": ("--swa-full",),
}


def test_every_setting_is_of_one_runtime_or_of_all() -> None:
    assert set(SETTINGS) == set(Engine.model_fields)
    assert not {*LLAMA_CPP_SETTINGS} & {*ONNX_RUNTIME_SETTINGS}
    shared = {*SETTINGS} - {*LLAMA_CPP_SETTINGS} - {*ONNX_RUNTIME_SETTINGS}
    assert shared == {"parallel"}
    assert {*IMAGE_SETTINGS} <= {*ONNX_RUNTIME_SETTINGS}


@pytest.mark.parametrize("name", SETTINGS)
def test_what_is_given_and_what_is_left_without_it(name: str) -> None:
    full = Engine.model_validate(SETTINGS)
    assert full.gives([name]) and not Engine().gives([name])
    rest = full.without([name])
    assert getattr(rest, name) is None
    assert {n for n in SETTINGS if rest.gives([n])} == {*SETTINGS} - {name}
    assert not full.without(SETTINGS).gives(SETTINGS)


@pytest.mark.parametrize("runtime", ["llama.cpp", "onnxruntime"])
@pytest.mark.parametrize("name", SETTINGS)
def test_a_model_takes_the_settings_of_its_runtime(name: str, runtime: str) -> None:
    foreign = ONNX_RUNTIME_SETTINGS if runtime == "llama.cpp" else LLAMA_CPP_SETTINGS
    given = {"runtime": runtime, "source": {"path": "m"}}
    engine = Engine.model_validate({name: SETTINGS[name]}).model_dump(
        by_alias=True, exclude_none=True
    )
    document = {"metadata": {"name": "m"}, "spec": given | {"engine": engine}}
    if name not in foreign:
        model = ServedModel.model_validate(document)
        assert model.spec.engine is not None and model.spec.engine.gives([name])
    else:
        with pytest.raises(ValidationError, match="engine takes, beside parallel"):
            ServedModel.model_validate(document)
