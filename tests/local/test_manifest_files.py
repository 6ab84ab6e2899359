"""Manifest files: what is read from them, and the sentence for each that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumas_crds.served_model import ServedModelStatus
from pumas_local.manifest_files import ManifestError, Manifests, read_manifests

HEAD = "apiVersion: serving.pumas.dev/v1alpha1\nkind: ServedModel\n"
MODEL = HEAD + "metadata: {name: tiny}\n"
WHOLE = MODEL + "spec: {source: {path: tiny.gguf}}\n"
PROFILE = (
    "apiVersion: serving.pumas.dev/v1alpha1\nkind: ServingProfile\nmetadata: {name: long}\n"
    "spec: {engine: {contextTokens: 4096}}\n"
)
EXAMPLES = Path(__file__).parents[2] / "crds" / "examples"


def read(folder: Path, *texts: str | bytes) -> Manifests:
    paths = []
    for number, text in enumerate(texts):
        path = folder / f"{number}.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        paths.append(path)
    return read_manifests(paths)


def refusal(folder: Path, *texts: str | bytes) -> str:
    with pytest.raises(ManifestError) as caught:
        read(folder, *texts)
    error = caught.value
    assert str(error) == f"{error.path}: {error.sentence}"
    return error.sentence


def test_models_and_profiles_of_several_documents_and_files(tmp_path: Path) -> None:
    second = WHOLE.replace("tiny}", "other, namespace: team-a}")
    manifests = read(tmp_path, f"---\n{WHOLE}---\n# nothing\n---\n{PROFILE}", second)
    assert [model.metadata.name for model in manifests.models] == ["tiny", "other"]
    assert manifests.models[1].metadata.namespace == "team-a"
    (profile,) = manifests.profiles
    assert profile.spec.engine.context_tokens == 4096


def test_a_relative_path_is_relative_to_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "m.yaml").write_text(WHOLE.replace("tiny.gguf", "../w/tiny.gguf"))
    monkeypatch.chdir(tmp_path)
    (model,) = read_manifests([Path("deep/m.yaml")]).models
    assert model.spec.source and model.spec.source.path == str(tmp_path / "w" / "tiny.gguf")


def test_a_projectors_path_is_relative_to_its_file_too(tmp_path: Path) -> None:
    (model,) = read(
        tmp_path, WHOLE.replace("gguf}", "gguf}, projector: {path: ../eyes.gguf}")
    ).models
    assert model.spec.projector is not None
    assert model.spec.projector.path == str(tmp_path.parent / "eyes.gguf")


def test_an_absolute_path_stays(tmp_path: Path) -> None:
    (model,) = read(tmp_path, WHOLE.replace("tiny.gguf", "/w/tiny.gguf")).models
    assert model.spec.source and model.spec.source.path == "/w/tiny.gguf"


def test_a_model_gets_the_same_uid_every_time_and_no_other_models(tmp_path: Path) -> None:
    text = WHOLE + "---\n" + WHOLE.replace("tiny}", "other}")
    first, second = (read(tmp_path, text).models for _ in range(2))
    assert [m.metadata.uid for m in first] == [m.metadata.uid for m in second]
    assert len({m.metadata.uid for m in first} - {""}) == 2
    (own,) = read(tmp_path, WHOLE.replace("tiny}", "tiny, uid: mine}")).models
    assert own.metadata.uid == "mine"


def test_what_a_cluster_adds_does_no_harm(tmp_path: Path) -> None:
    text = HEAD + (
        "metadata: {name: tiny, creationTimestamp: 2026-01-01T00:00:00Z, resourceVersion: '7'}\n"
        "spec: {source: {path: tiny.gguf}}\n"
        "status: {loadState: loaded, replicas: 1}\n"
    )
    (model,) = read(tmp_path, text).models
    assert model.status == ServedModelStatus()


def test_every_example_can_be_read() -> None:
    for path in [*EXAMPLES.glob("local/*.yaml"), *EXAMPLES.glob("cluster/*.yaml")]:
        assert read_manifests([path]).models, path.name


def test_every_invalid_example_is_refused_with_its_field() -> None:
    paths = list(EXAMPLES.glob("invalid/*.yaml"))
    assert paths
    for path in paths:
        with pytest.raises(ManifestError) as caught:
            read_manifests([path])
        assert caught.value.sentence.startswith("document 1 ("), path.name


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "holds no document."),
        ("# only a comment\n---\n", "holds no document."),
        (b"\xff\xfe", "is not UTF-8 at byte 0."),
        ("a: b: c\n", "document 1: line 1, column 5: mapping values are not allowed here."),
        (WHOLE + "---\na: [1\n", "document 2: line"),
        ("a: \x07\n", "line 1: special characters are not allowed."),
        ("[" * 1500, "document 1: it is nested too deeply."),
        ("- a\n", "document 1: it must be a mapping of fields, not a list."),
        ("just text\n", "document 1: it must be a mapping of fields, not a single value."),
        (
            WHOLE + "spec: {source: {path: b}}\n",
            "document 1: line 5, column 1: the key 'spec' stands twice.",
        ),
        (
            MODEL + "spec:\n  source: {path: a}\n  alias: x\n  source: {path: b}\n",
            "document 1: line 7, column 3: the key 'source' stands twice.",
        ),
        (MODEL + "spec: {alias: .nan}\n", "document 1: it holds what JSON cannot express."),
        ("kind: ServedModel\n", "document 1 (ServedModel): apiVersion is required: serving.pumas"),
        ("apiVersion: v1\nkind: Pod\n", 'apiVersion must be serving.pumas.dev/v1alpha1, not "v1".'),
        (
            "apiVersion: serving.pumas.dev/v1alpha1\n",
            "document 1: kind is required: ServedModel or ServingProfile.",
        ),
        (
            "apiVersion: serving.pumas.dev/v1alpha1\nkind: Model\n",
            'kind must be ServedModel or ServingProfile, not "Model".',
        ),
        (
            "apiVersion: serving.pumas.dev/v1alpha1\nkind: [a]\n",
            "kind must be ServedModel or ServingProfile, not a list.",
        ),
        (HEAD + "spec: {source: {path: a}}\n", "(ServedModel): metadata is required."),
        (MODEL, "document 1 (ServedModel tiny): spec is required."),
        (
            WHOLE + "---\n" + MODEL + "spec: {sauce: {path: a}}\n",
            "document 2 (ServedModel tiny): spec.sauce is not a known field; known there: alias,",
        ),
        (
            MODEL + "spec: {source: {path: a}, engine: {paralel: 1}}\n",
            "spec.engine.paralel is not a known field; known there: contextTokens, parallel,",
        ),
        (
            MODEL + "spec: {source: {path: a}, drain_seconds: 3}\n",
            "spec.drain_seconds is not a known field",
        ),
        (
            MODEL + "spec: {source: {path: a}, engine: {contextTokens: 8}}\n",
            "spec.engine.contextTokens must be greater than or equal to 64, not 8.",
        ),
        (
            MODEL + "spec: {source: {path: a}, drainSeconds: '3'}\n",
            'spec.drainSeconds must be a valid integer, not "3".',
        ),
        (
            MODEL + "spec: {source: {path: a}, runtime: vllm}\n",
            "spec.runtime must be 'llama.cpp', 'onnxruntime' or 'external', not \"vllm\".",
        ),
        (
            MODEL + "spec: {source: {path: a}, engine: {flashAttention: on}}\n",
            "not true (write it in quotes: bare, YAML does not read it as text).",
        ),
        (
            MODEL + "spec: {source: {path: a}, catalogue: {aliases: [a, 1]}}\n",
            "spec.catalogue.aliases[1] must be a valid string, not 1 (write it in quotes",
        ),
        (
            MODEL + "spec: {source: {path: a}, catalogue: text}\n",
            'spec.catalogue must be an object, not "text".',
        ),
        (MODEL + "spec: {alias: tiny}\n", "spec: source is required, except with runtime external"),
        (MODEL + f"spec: {{source: {{path: {'a' * 1020}}}}}\n", "path must have at most 1024"),
        (WHOLE + "---\n" + WHOLE, "document 2 (ServedModel tiny): there already is a ServedModel"),
        (PROFILE + "---\n" + PROFILE, "there already is a ServingProfile named long."),
    ],
)
def test_sentences(tmp_path: Path, text: str | bytes, sentence: str) -> None:
    assert sentence in refusal(tmp_path, text)


def test_a_name_may_not_occur_in_two_files(tmp_path: Path) -> None:
    assert refusal(tmp_path, WHOLE, WHOLE).startswith(
        "document 1 (ServedModel tiny): there already"
    )


def test_all_complaints_about_a_document_are_told_at_once(tmp_path: Path) -> None:
    sentence = refusal(tmp_path, MODEL + "spec: {source: {path: a}, a: 1, b: 2}\n")
    assert "spec.a is not" in sentence and "; spec.b is not" in sentence


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"none\.yaml: cannot be read: No such file"):
        read_manifests([tmp_path / "none.yaml"])
    with pytest.raises(ManifestError, match="cannot be read: Is a directory"):
        read_manifests([tmp_path])


def test_merged_keys_are_not_doubled_keys(tmp_path: Path) -> None:
    text = WHOLE.replace("{source: {path: tiny.gguf}}", "\n  <<: {alias: a}\n  alias: b\n")
    (model,) = read(tmp_path, text + "  source: {path: tiny.gguf}\n").models
    assert model.alias == "b"
