"""ServingProfile: what an administrator may say of pods, and what is ours to say."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from pumas_crds.serving_profile import BUILT_IN_DEFAULT, ServingProfile, ServingProfileSpec


def spec(**fields: Any) -> ServingProfileSpec:
    return ServingProfile.model_validate({"metadata": {"name": "p"}, "spec": fields}).spec


def refusal(**fields: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        spec(**fields)
    (error,) = caught.value.errors()
    return f"{'.'.join(map(str, error['loc']))}: {error['msg']}"


def test_a_profile_may_say_nothing() -> None:
    assert BUILT_IN_DEFAULT.metadata.name == "default"
    bare = ServingProfile.model_validate({"metadata": {"name": "p"}})
    assert bare.spec == BUILT_IN_DEFAULT.spec
    assert (bare.spec.drain_seconds, bare.spec.allowed_endpoint_hosts) == (None, ())
    assert bare.spec.allowed_source_hosts == ("huggingface.co",)
    assert (bare.spec.rollout, bare.spec.cache) == ("replace", None)


def test_a_profile_refuses_what_it_does_not_know() -> None:
    assert "spec.nodeName" in refusal(nodeName="node-1")
    assert "spec.images.vllm" in refusal(images={"vllm": "x"})


def test_each_runtime_may_have_its_image() -> None:
    images = spec(images={"llama.cpp": "a", "onnxruntime": "b"}).images
    assert (images.llama_cpp, images.onnx_runtime) == ("a", "b")


@pytest.mark.parametrize("setting", [{"steps": 4}, {"guidancePercent": 100}])
def test_settings_of_one_pipeline_are_no_profiles(setting: dict[str, int]) -> None:
    assert "settings of a model, not of a profile" in refusal(engine=setting)


def test_a_profile_may_hold_settings_of_both_runtimes() -> None:
    engine = spec(engine={"device": "cuda", "contextTokens": 512, "parallel": 2}).engine
    assert (engine.device, engine.context_tokens, engine.parallel) == ("cuda", 512, 2)


@pytest.mark.parametrize(
    ("written", "read"),
    [(1, "1"), ("1", "1"), ("500m", "500m"), ("1.5Gi", "1.5Gi"), (".5", ".5"), ("1e3", "1e3")],
)
def test_quantities_are_what_kubernetes_takes(written: object, read: str) -> None:
    limits = {"cpu": written, "nvidia.com/gpu": written}
    assert spec(resources={"limits": limits}).resources.limits == {
        "cpu": read,
        "nvidia.com/gpu": read,
    }


@pytest.mark.parametrize("written", ["", "1 Gi", "-1", "1GB", "x", True, 0.5, None, "1" * 33])
def test_quantities_that_are_refused(written: object) -> None:
    assert "spec.resources.limits.cpu" in refusal(resources={"limits": {"cpu": written}})


def test_a_whole_number_is_also_read_where_nothing_is_converted() -> None:
    document = '{"metadata":{"name":"p"},"spec":{"shmSize":1,"affinity":{"a":[1,null,{"b":"c"}]}}}'
    read = ServingProfile.model_validate_json(document, strict=True).spec
    assert (read.shm_size, read.affinity) == ("1", {"a": [1, None, {"b": "c"}]})


@pytest.mark.parametrize(
    "fields",
    [
        {"podLabels": {"app.kubernetes.io/name": "x"}},
        {"podLabels": {"serving.pumas.dev/model": "x"}},
        {"podAnnotations": {"serving.pumas.dev/spec-hash": "x"}},
    ],
)
def test_labels_that_tell_our_pods_apart_are_ours(fields: dict[str, Any]) -> None:
    assert "which tell our pods apart" in refusal(**fields)


@pytest.mark.parametrize("name", ["PUMAS_RUN", "PUMAS_ANYTHING", "POD_IP", "ENGINE_PORT"])
def test_variables_that_tell_our_programs_what_to_do_are_ours(name: str) -> None:
    assert "are the pod's own" in refusal(env=[{"name": name, "value": "x"}])


def test_the_engine_is_a_variable_that_users_set() -> None:
    variable = {"name": "PUMAS_ENGINE", "value": "llama-cpp-python"}
    assert spec(env=[variable]).env[0].value == "llama-cpp-python"
    assert "would expand" in refusal(env=[{"name": "PUMAS_ENGINE", "value": "$(A)"}])


@pytest.mark.parametrize("value", ["$(POD_IP)", "a$$b"])
def test_variables_are_taken_as_they_are_written(value: str) -> None:
    assert "would expand" in refusal(env=[{"name": "A", "value": value}])
    assert spec(env=[{"name": "A", "value": "a$b"}]).env[0].value == "a$b"


def test_a_variable_is_named_once() -> None:
    variable = {"name": "A", "value": "x"}
    assert "names a variable twice" in refusal(env=[variable, variable])


@pytest.mark.parametrize(
    "cache",
    [{}, {"emptyDir": {"sizeLimit": "1Gi"}, "persistentVolumeClaim": {"claimName": "c"}}],
)
def test_a_cache_is_of_one_kind(cache: dict[str, Any]) -> None:
    assert "exactly one of: emptyDir, persistentVolumeClaim" in refusal(cache=cache)


@pytest.mark.parametrize("path", ["", "models", "/a//b", "/a\n"])
def test_host_paths_are_absolute_folders(path: str) -> None:
    assert "spec.allowedHostPaths.0" in refusal(allowedHostPaths=[path])


@pytest.mark.parametrize("key", ["", "..", "a/b", ".hidden"])
def test_a_bundles_key_is_a_file_name(key: str) -> None:
    assert "spec.caBundle.key" in refusal(caBundle={"name": "c", "key": key})
    assert spec(caBundle={"name": "c"}).ca_bundle is not None
