"""What a remote file is, told from as little of it as possible."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumas_crds.vocabulary import Reason
from pumas_server.worker import remote_header
from pumas_server.worker.gguf_header import read_header
from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.projector import projector_facts
from pumas_server.worker.remote_header import fetch_facts, fetch_projector_facts
from pumas_server.worker.weights import read_facts
from support.file_server import file_server


def fault(content: bytes, **how: object) -> HeaderFault:
    with file_server(content, **how) as server, pytest.raises(HeaderFault) as caught:
        fetch_facts(server.url)
    return caught.value


@pytest.mark.parametrize("first", [16, 1000, 1 << 20])
def test_the_facts_are_those_of_the_whole_file(
    tiny_models: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    monkeypatch.setattr(remote_header, "FIRST_BYTES", first)
    monkeypatch.setattr("pumas_server.worker.remote_file.BLOCK_BYTES", 16)
    for name in ("tiny-chat", "tiny-embed", "tiny-rerank", "tiny-decision"):
        path = tiny_models / f"{name}.gguf"
        with file_server(path.read_bytes()) as server:
            assert fetch_facts(server.url) == read_facts(path)


def test_the_weights_are_not_fetched(tiny_models: Path) -> None:
    """A file that claims a gigabyte of weights: the server has the header and no more."""
    path = tiny_models / "tiny-chat.gguf"
    content = path.read_bytes()
    with file_server(content) as server:
        facts = fetch_facts(server.url)
        server.cuts = [len(content) - 200_000]
        assert fetch_facts(server.url) == facts


def test_a_projectors_facts_are_those_of_the_whole_file(tiny_models: Path) -> None:
    raw = (tiny_models / "tiny-projector.gguf").read_bytes()
    with file_server(raw) as server:
        facts = fetch_projector_facts(server.url)
        assert facts == projector_facts(read_header(raw, len(raw)), len(raw))
        assert (facts.width, facts.size_bytes) == (64, len(raw))
    whole = (tiny_models / "tiny-chat.gguf").read_bytes()
    with file_server(whole) as server, pytest.raises(HeaderFault) as caught:
        fetch_projector_facts(server.url)
    assert "is no projector" in caught.value.message


def test_a_file_that_is_shorter_than_its_tensors(tiny_models: Path) -> None:
    content = (tiny_models / "tiny-chat.gguf").read_bytes()
    assert fault(content[:-1000]).reason is Reason.TRUNCATED


def test_a_file_that_ends_within_its_header(tiny_models: Path) -> None:
    content = (tiny_models / "tiny-chat.gguf").read_bytes()
    assert "within its header" in fault(content[:1000]).message


def test_a_connection_that_breaks_within_the_header(tiny_models: Path) -> None:
    content = (tiny_models / "tiny-chat.gguf").read_bytes()
    assert fault(content, cuts=[1000]).reason is Reason.TRUNCATED


def test_a_header_without_end(tiny_models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_header, "FIRST_BYTES", 16)
    monkeypatch.setattr(remote_header, "HEADER_BYTES_LIMIT", 64)
    monkeypatch.setattr("pumas_server.worker.remote_file.BLOCK_BYTES", 16)
    refused = fault((tiny_models / "tiny-chat.gguf").read_bytes())
    assert refused.reason is Reason.NOT_A_MODEL and "longer than" in refused.message


@pytest.mark.parametrize(
    ("content", "how", "words"),
    [
        (b"<html>Sign in</html>", {}, "does not begin as a GGUF file does"),
        (b"", {}, "it is empty"),
        (b"GGUF", {"says_length": False}, "does not say how large it is"),
    ],
)
def test_no_model(content: bytes, how: dict[str, object], words: str) -> None:
    refused = fault(content, **how)
    assert refused.reason is Reason.NOT_A_MODEL and words in refused.message
