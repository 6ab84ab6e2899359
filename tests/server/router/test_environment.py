"""The router's environment, as a table: what is taken, and the sentence for what is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pumas_server.router.environment import EnvironmentFault, read_environment
from pumas_server.router.settings import RouterSettings

LEAST = {
    "PUMAS_KEY_SECRET_FILE": "/somewhere/key",
    "PUMAS_NAMESPACE": "pumas-system",
    "HOSTNAME": "pumas-router-7d9f-abcde",
}


def test_what_is_not_said_has_its_default() -> None:
    read = read_environment(LEAST)
    assert (read.port, read.watched) == (8080, ())
    assert (read.namespace, read.identity) == ("pumas-system", "pumas-router-7d9f-abcde")
    assert read.settings.model_management is False
    assert read.key_secret_file == Path("/somewhere/key")
    assert read.settings == RouterSettings()
    empty = dict.fromkeys(("PUMAS_PORT", "PUMAS_ACCESS", "PUMAS_MODEL_MANAGEMENT"), "")
    assert read_environment(LEAST | empty) == read


def test_everything_can_be_said() -> None:
    read = read_environment(
        LEAST
        | {
            "PUMAS_PORT": "9000",
            "PUMAS_WATCH_NAMESPACES": "a, b-c,,a",
            "PUMAS_ACCESS": "none",
            "PUMAS_MAX_IN_FLIGHT": "7",
            "PUMAS_MODEL_SHARE": "0.25",
            "PUMAS_MAX_CONNECTIONS": "9",
            "PUMAS_EXTERNAL_IN_FLIGHT": "8",
            "PUMAS_BUFFER_BYTES": "1048576",
            "PUMAS_PROPAGATION_SECONDS": "0",
            "PUMAS_DRAIN_SECONDS": "2.5",
            "PUMAS_MODEL_MANAGEMENT": "true",
        }
    )
    assert (read.port, read.watched) == (9000, ("a", "b-c"))
    assert read.settings.model_management is True
    no = LEAST | {"PUMAS_MODEL_MANAGEMENT": "false"}
    assert read_environment(no).settings.model_management is False
    assert read.settings == RouterSettings(
        model_management=True,
        max_in_flight=7,
        model_share=0.25,
        max_connections=9,
        external_in_flight=8,
        buffer_bytes=1_048_576,
        propagation_seconds=0,
        drain_seconds=2.5,
    )


@pytest.mark.parametrize(
    ("name", "value", "limit"),
    [
        ("PUMAS_PORT", "0", "from 1 to 65535"),
        ("PUMAS_PORT", "65536", "from 1 to 65535"),
        ("PUMAS_PORT", "tcp://10.0.0.1:80", "from 1 to 65535"),
        ("PUMAS_PORT", "+80", "from 1 to 65535"),
        ("PUMAS_PORT", "8_0", "from 1 to 65535"),
        ("PUMAS_PORT", "٨٠", "from 1 to 65535"),
        ("PUMAS_PORT", "9" * 5000, "from 1 to 65535"),
        ("PUMAS_PORT", "80\n", "from 1 to 65535"),
        ("PUMAS_MAX_IN_FLIGHT", "0", "from 1 to 1000000"),
        ("PUMAS_MAX_IN_FLIGHT", "1.5", "from 1 to 1000000"),
        ("PUMAS_MODEL_SHARE", "0", "from 0.1 to 1"),
        ("PUMAS_MODEL_SHARE", "0.09", "from 0.1 to 1"),
        ("PUMAS_MODEL_SHARE", "1.01", "from 0.1 to 1"),
        ("PUMAS_MODEL_SHARE", ".5", "from 0.1 to 1"),
        ("PUMAS_MODEL_SHARE", "50%", "from 0.1 to 1"),
        ("PUMAS_MAX_CONNECTIONS", "0", "from 1 to 1000000"),
        ("PUMAS_EXTERNAL_IN_FLIGHT", "-1", "from 1 to 1000000"),
        ("PUMAS_BUFFER_BYTES", "1048575", "from 1048576 to 1099511627776"),
        ("PUMAS_BUFFER_BYTES", "256Mi", "from 1048576 to 1099511627776"),
        ("PUMAS_PROPAGATION_SECONDS", "301", "from 0 to 300"),
        ("PUMAS_PROPAGATION_SECONDS", "nan", "from 0 to 300"),
        ("PUMAS_DRAIN_SECONDS", "86401", "from 0 to 86400"),
        ("PUMAS_DRAIN_SECONDS", "1e3", "from 0 to 86400"),
        ("PUMAS_DRAIN_SECONDS", "inf", "from 0 to 86400"),
        ("PUMAS_DRAIN_SECONDS", "10s", "from 0 to 86400"),
        ("PUMAS_WATCH_NAMESPACES", "a,B", "63 characters"),
        ("PUMAS_WATCH_NAMESPACES", "a/b", "63 characters"),
        ("PUMAS_WATCH_NAMESPACES", "a" * 64, "63 characters"),
        ("PUMAS_ACCESS", "tokens", "`none` alone"),
        ("PUMAS_ACCESS", "kubernetes", "`none` alone"),
        ("PUMAS_IMAGE_PERMITS", "0", "from 1 to 256"),
        ("PUMAS_IMAGE_PERMITS", "257", "from 1 to 256"),
        ("PUMAS_TOKENS_FILE", "/t", "no such setting"),
        ("PUMAS_MODEL_MANAGEMENT", "yes", "`true` nor `false`"),
        ("PUMAS_MODEL_MANAGEMENT", "True", "`true` nor `false`"),
        ("PUMAS_MODEL_MANAGEMENT", "true ", "`true` nor `false`"),
        ("PUMAS_NAMESPACE", "", "is not set"),
        ("PUMAS_NAMESPACE", "a,b", "63 characters"),
        ("PUMAS_NAMESPACE", "../kube-system", "63 characters"),
        ("HOSTNAME", "", "is not set"),
        ("PUMAS_KEY_SECRET_FILE", "", "is not set"),
    ],
)
def test_a_value_that_cannot_be(name: str, value: str, limit: str) -> None:
    with pytest.raises(EnvironmentFault) as refused:
        read_environment(LEAST | {name: value})
    told = str(refused.value)
    assert re.fullmatch(r"[A-Z_]+ [^\n]{1,200}\.", told)
    assert told.startswith(name)
    assert limit in told
