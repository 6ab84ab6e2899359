"""All files of a model that lies on this machine: weights, projector, and the order of complaints."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from pumas_crds.facts import FileFacts
from pumas_crds.source import Source
from pumas_crds.vocabulary import Reason, Runtime
from pumas_crds.worker_spec import WorkerSpec
from pumas_server.worker.model_files import check_files
from pumas_server.worker.weights import Refused


def check(folder: Path, file: str, projector: str | None = None, **spec: Any) -> FileFacts:
    """The facts of models in the folder; nothing is said beside."""

    def silent(sentence: str) -> None:
        raise AssertionError(sentence)

    digest = spec.pop("digest", True)
    asked = WorkerSpec(
        alias="tiny",
        runtime=spec.pop("runtime", Runtime.LLAMA_CPP),
        source=Source(path=str(folder / file)),
        projector=Source(path=str(folder / projector)) if projector else None,
        **spec,
    )
    return check_files(asked, "/models", silent, digest=digest)


def refusal(*arguments: Any, **spec: Any) -> tuple[Reason, str]:
    with pytest.raises(Refused) as caught:
        check(*arguments, **spec)
    fault = caught.value.fault
    assert "/" not in fault.message
    return fault.reason, fault.message


def test_a_model_alone_has_no_projector(tiny_models: Path) -> None:
    facts = check(tiny_models, "tiny-chat.gguf")
    assert (facts.architecture, facts.projector) == ("llama", None)


def test_the_facts_of_both(tiny_models: Path) -> None:
    facts = check(tiny_models, "tiny-chat.gguf", "tiny-projector.gguf")
    assert facts.architecture == "llama"
    assert facts.projector is not None
    assert facts.projector.input_modalities == ("image", "audio")
    assert facts.projector.size_bytes == (tiny_models / "tiny-projector.gguf").stat().st_size
    alone = check(tiny_models, "tiny-chat.gguf")
    assert facts.model_copy(update={"projector": None}) == alone


@pytest.mark.parametrize(
    ("projector", "reason", "words"),
    [
        ("tiny-projector-wide.gguf", Reason.PROJECTOR_MISMATCH, "gives vectors of 128 values"),
        ("tiny-chat.gguf", Reason.NOT_A_MODEL, "the file is no projector"),
        ("absent.gguf", Reason.SOURCE_UNREACHABLE, "is not there"),
    ],
)
def test_a_projector_that_cannot_be_its(
    tiny_models: Path, projector: str, reason: Reason, words: str
) -> None:
    told, message = refusal(tiny_models, "tiny-chat.gguf", projector)
    assert (told, words in message) == (reason, True), message
    assert projector in message


def test_a_truncated_projector_is_named_by_its_own_name(tiny_models: Path, tmp_path: Path) -> None:
    whole = (tiny_models / "tiny-projector.gguf").read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[:-100])
    (tmp_path / "m.gguf").symlink_to(tiny_models / "tiny-chat.gguf")
    reason, message = refusal(tmp_path, "m.gguf", "cut.gguf")
    assert reason is Reason.TRUNCATED
    assert message.startswith("cut.gguf")


def test_the_weights_are_complained_about_first(tiny_models: Path) -> None:
    reason, message = refusal(tiny_models, "absent.gguf", "also-absent.gguf")
    assert reason is Reason.SOURCE_UNREACHABLE
    assert "also" not in message


def test_a_projector_alone_is_no_model(tiny_models: Path) -> None:
    assert refusal(tiny_models, "tiny-projector.gguf")[0] is Reason.NOT_A_MODEL


def test_the_digest_is_of_the_weights_and_is_left_out_when_it_was_checked(
    tiny_models: Path,
) -> None:
    files = ("tiny-chat.gguf", "tiny-projector.gguf")
    digest = hashlib.sha256((tiny_models / files[0]).read_bytes()).hexdigest()
    assert check(tiny_models, *files, sha256=digest).digest == f"sha256:{digest}"
    wrong = "0" * 64
    assert refusal(tiny_models, *files, sha256=wrong)[0] is Reason.DIGEST_MISMATCH
    assert check(tiny_models, *files, sha256=wrong, digest=False).digest == ""


@pytest.mark.parametrize("settings", [{"steps": 4}, {"guidance_percent": 100}])
def test_settings_of_images_are_for_what_makes_images(
    tiny_models: Path, settings: dict[str, int]
) -> None:
    reason, message = refusal(tiny_models, "tiny-chat.gguf", engine=settings)
    assert reason is Reason.NOT_IMPLEMENTED
    assert "this model is here to generate" in message


def test_an_external_server_has_no_files_of_ours(tiny_models: Path) -> None:
    told = refusal(tiny_models, "tiny-chat.gguf", runtime=Runtime.EXTERNAL)
    assert told[0] is Reason.NOT_IMPLEMENTED
