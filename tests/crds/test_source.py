"""Sources: one way at a time, and no text in them that could lead elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from pumas_crds.source import UNNAMED, HuggingFaceSource, Source

HUB = {"repo": "org/model-GGUF", "file": "q4/model.gguf"}
CLAIM = {"claimName": "weights", "path": "q4/model.gguf"}
URL = "https://files.example.com/q4/model.gguf"


def source(**members: Any) -> Source:
    return Source.model_validate(members)


def refusal(**members: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        source(**members)
    (error,) = caught.value.errors()
    return f"{'.'.join(map(str, error['loc']))}: {error['msg']}"


@pytest.mark.parametrize(
    ("members", "remote", "model_id"),
    [
        ({"path": "/var/model.gguf"}, False, "model"),
        ({"persistentVolumeClaim": CLAIM}, False, "model"),
        ({"http": {"url": URL}}, True, "model"),
        ({"huggingFace": HUB}, True, "org/model-GGUF"),
    ],
)
def test_the_four_ways(members: dict[str, Any], remote: bool, model_id: str) -> None:
    read = source(**members)
    assert read.file_name() == "model.gguf"
    assert (read.remote, read.model_id()) == (remote, model_id)


@pytest.mark.parametrize(
    "members", [{}, {"path": "m", "http": {"url": URL}}, {"huggingFace": HUB, "http": {"url": URL}}]
)
def test_exactly_one(members: dict[str, Any]) -> None:
    assert "exactly one of: huggingFace, http, persistentVolumeClaim, path" in refusal(**members)


@pytest.mark.parametrize("path", ["a\n", "a\x00b", "\x7f", "a\tb"])
def test_a_path_holds_no_control_characters(path: str) -> None:
    assert "no control characters" in refusal(path=path)


@pytest.mark.parametrize(
    "path",
    ["", "/model.gguf", "..", "../m", "a/../m", "a/..", ".", "./m", "a//m", "a/", "a\nb", "a/\x7f"],
)
def test_paths_that_leave_their_volume_or_repository(path: str) -> None:
    assert "path" in refusal(persistentVolumeClaim={"claimName": "c", "path": path})
    assert "file" in refusal(huggingFace={"repo": "o/m", "file": path})


@pytest.mark.parametrize("path", ["m", ".m", "..m", "...", "a b/ü.gguf", ".cache/x..y/m", "$(rm)"])
def test_names_that_only_look_odd(path: str) -> None:
    read = source(persistentVolumeClaim={"claimName": "c", "path": path})
    assert read.file_name() == path.rpartition("/")[2]


@pytest.mark.parametrize("repo", ["", "a/b/c", "/a", "a/", "-a", "a b", "a/..", "a?b", "../a"])
def test_repositories_that_are_refused(repo: str) -> None:
    assert "huggingFace.repo" in refusal(huggingFace={"repo": repo, "file": "m"})


@pytest.mark.parametrize("revision", ["", "../main", "a/../b", "a b", "/a", "a/", "a?b", "a#b"])
def test_revisions_that_are_refused(revision: str) -> None:
    refused = refusal(huggingFace={"repo": "o/m", "file": "m", "revision": revision})
    assert "huggingFace.revision" in refused


def test_a_revision_is_main_unless_it_is_set_and_pinned_when_it_is_a_commit() -> None:
    assert HuggingFaceSource(repo="o/m", file="m").revision == "main"
    for revision, pinned in (("main", False), ("refs/pr/7", False), ("a5" * 20, True)):
        assert HuggingFaceSource(repo="o/m", file="m", revision=revision).pinned is pinned


@pytest.mark.parametrize(
    "url",
    [
        "",
        "files.example.com/m",
        "ftp://files.example.com/m",
        "file:///etc/passwd",
        "http://",
        "http:///m",
        "http://h:0x50/m",
        "http://h:65536/m",
        "http://[::1/m",
        "http://user@h/m",
        "http://h/m#part",
        "http://h/a b",
        "http://h\\@evil/m",
        "http://h/\n",
    ],
)
def test_urls_that_are_refused(url: str) -> None:
    assert "http.url" in refusal(http={"url": url})


@pytest.mark.parametrize(
    ("url", "host", "name"),
    [
        ("http://H.Example:8080/a/m.gguf?token=x/y", "h.example", "m.gguf"),
        ("http://h/a%20b.gguf", "h", "a b.gguf"),
        ("http://h", "h", UNNAMED),
        ("http://h/models/", "h", UNNAMED),
        ("http://h/..", "h", UNNAMED),
        ("http://h/%2e%2e", "h", UNNAMED),
        ("http://h/a%2Fb", "h", UNNAMED),
        ("http://h/a%00b", "h", UNNAMED),
        ("http://h/" + "x" * 201, "h", UNNAMED),
        ("http://h/" + "x" * 200, "h", "x" * 200),
    ],
)
def test_what_a_url_says_of_host_and_name(url: str, host: str, name: str) -> None:
    read = source(http={"url": url})
    assert read.http is not None
    assert (read.http.host(), read.file_name()) == (host, name)
