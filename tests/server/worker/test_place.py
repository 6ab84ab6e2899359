"""The environment of a serving pod."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pumas_server.worker.place import Place, PlaceFault, read_place, read_worker_spec

SPEC = {"alias": "m", "runtime": "llama.cpp", "source": {"path": "/m.gguf"}}


def test_defaults_are_those_of_a_pod() -> None:
    assert read_place({"POD_IP": "10.0.0.7"}) == Place("10.0.0.7", 8080, 8081, Path("/run/pumas"))


def test_everything_can_be_told() -> None:
    environ = {
        "POD_IP": "::1",
        "ENGINE_PORT": "1",
        "SUPERVISOR_PORT": "65535",
        "PUMAS_RUN": "/r",
        "PUMAS_MODELS": "/m",
    }
    assert read_place(environ) == Place("::1", 1, 65_535, Path("/r"), Path("/m"))


@pytest.mark.parametrize("port", ["0", "65536", "http", "-1", "8080.0"])
def test_a_port_that_is_none(port: str) -> None:
    with pytest.raises(PlaceFault, match="ENGINE_PORT"):
        read_place({"ENGINE_PORT": port})


def test_the_spec() -> None:
    spec = read_worker_spec({"PUMAS_WORKER": json.dumps({**SPEC, "drainSeconds": 7})})
    assert (spec.alias, spec.source.path, spec.drain_seconds) == ("m", "/m.gguf", 7)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "is not set"),
        ("{", "Invalid JSON"),
        (json.dumps({**SPEC, "surprise": 1}), "surprise"),
        (json.dumps({**SPEC, "drainSeconds": -1}), "drainSeconds"),
    ],
)
def test_no_spec_is_said_in_one_line(text: str | None, says: str) -> None:
    with pytest.raises(PlaceFault, match=says) as refusal:
        read_worker_spec({} if text is None else {"PUMAS_WORKER": text})
    assert "\n" not in str(refusal.value)


def place(run: Path, key: str | None) -> Place:
    if key is not None:
        (run / "key").mkdir()
        (run / "key" / "engine-key").write_text(key)
    return Place("127.0.0.1", 1, 2, run)


def test_the_key_is_the_first_line_that_is_one(tmp_path: Path) -> None:
    assert place(tmp_path, "# made by hand\n\nsecret\nother\n").read_key() == "secret"


@pytest.mark.parametrize("key", [None, "", "# nothing\n"])
def test_without_a_key_nothing_is_served(tmp_path: Path, key: str | None) -> None:
    with pytest.raises(PlaceFault, match="key") as refusal:
        place(tmp_path, key).read_key()
    assert str(tmp_path) not in str(refusal.value)


def test_the_launch_counts_this_machines_cpus(tmp_path: Path) -> None:
    settings = place(tmp_path, None).launch_settings()
    assert settings.cpus >= 1
    assert settings.key_file == tmp_path / "key" / "engine-key"
