"""The environment: what the chart sets, and the sentence when it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumas_operator.environment import EnvironmentFault, read_environment

GIVEN = {
    "PUMAS_NAMESPACE": "pumas-system",
    "PUMAS_KEY_SECRET_FILE": "/run/key",
    "HOSTNAME": "pod-1",
    "PUMAS_WORKER_IMAGE": "registry.example/worker:1",
}


def test_what_must_be_given_is_enough() -> None:
    read = read_environment(GIVEN)
    assert (read.namespace, read.identity, read.port) == ("pumas-system", "pod-1", 8080)
    assert read.key_secret_file == Path("/run/key")
    assert read.watched == ()
    assert read.settings.image == "registry.example/worker:1"
    assert read.settings.namespace == "pumas-system"
    assert read.settings.propagation_seconds == 5


@pytest.mark.parametrize(
    ("text", "names"),
    [("", ()), ("a", ("a",)), (" a, b ,,c", ("a", "b", "c")), (" , ", ())],
)
def test_namespaces_are_listed_with_commas(text: str, names: tuple[str, ...]) -> None:
    assert read_environment({**GIVEN, "PUMAS_WATCH_NAMESPACES": text}).watched == names


def test_numbers_are_read() -> None:
    given = {**GIVEN, "PUMAS_HEALTH_PORT": "9000", "PUMAS_PROPAGATION_SECONDS": "0.5"}
    read = read_environment(given)
    assert (read.port, read.settings.propagation_seconds) == (9000, 0.5)


@pytest.mark.parametrize("name", list(GIVEN))
@pytest.mark.parametrize("value", [None, ""])
def test_what_is_missing_is_named(name: str, value: str | None) -> None:
    given = {key: text for key, text in GIVEN.items() if key != name}
    given |= {} if value is None else {name: value}
    with pytest.raises(EnvironmentFault, match=f"^{name} is not set; the chart sets it.$"):
        read_environment(given)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("PUMAS_HEALTH_PORT", "0", "PUMAS_HEALTH_PORT is '0', and not a number from 1 to 65535."),
        ("PUMAS_HEALTH_PORT", "http", "and not a number from 1 to 65535."),
        ("PUMAS_HEALTH_PORT", "8080.5", "and not a whole number from 1 to 65535."),
        ("PUMAS_PROPAGATION_SECONDS", "-1", "and not a number from 0 to 300."),
        ("PUMAS_PROPAGATION_SECONDS", "nan", "and not a number from 0 to 300."),
        ("PUMAS_PROPAGATION_SECONDS", "inf", "and not a number from 0 to 300."),
    ],
)
def test_what_cannot_be_is_named(name: str, value: str, sentence: str) -> None:
    with pytest.raises(EnvironmentFault) as caught:
        read_environment({**GIVEN, name: value})
    assert str(caught.value).startswith(name)
    assert sentence.removeprefix("and not a ").removeprefix("whole ") in str(caught.value)
