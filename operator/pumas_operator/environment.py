"""What the operator is told by its environment. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pumas_operator.manifests import Settings

MAX_PROPAGATION_SECONDS = 300.0


class EnvironmentFault(Exception):
    """A variable is missing or cannot be: one sentence that names it."""


@dataclass(frozen=True, slots=True)
class Environment:
    """One operator's place and settings."""

    namespace: str
    """Its own, where profiles and the Lease are."""
    watched: tuple[str, ...]
    """Namespaces whose models it serves; empty: all."""
    key_secret_file: Path
    """What engine keys are derived from."""
    identity: str
    """What tells it from other operators: its pod's name."""
    port: int
    """Where `/healthz` answers."""
    settings: Settings


def read_environment(environ: Mapping[str, str]) -> Environment:
    """The environment; raises `EnvironmentFault`."""
    watched = environ.get("PUMAS_WATCH_NAMESPACES", "")
    namespace = _required(environ, "PUMAS_NAMESPACE")
    return Environment(
        namespace=namespace,
        watched=tuple(name.strip() for name in watched.split(",") if name.strip()),
        key_secret_file=Path(_required(environ, "PUMAS_KEY_SECRET_FILE")),
        identity=_required(environ, "HOSTNAME"),
        port=_whole(environ, "PUMAS_HEALTH_PORT", 8080, 1, 65535),
        settings=Settings(
            image=_required(environ, "PUMAS_WORKER_IMAGE"),
            namespace=namespace,
            propagation_seconds=_number(
                environ, "PUMAS_PROPAGATION_SECONDS", 5, 0, MAX_PROPAGATION_SECONDS
            ),
        ),
    )


def _required(environ: Mapping[str, str], name: str) -> str:
    value = environ.get(name, "")
    if not value:
        raise EnvironmentFault(f"{name} is not set; the chart sets it.")
    return value


def _whole(environ: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    number = _number(environ, name, default, least, most)
    if not number.is_integer():
        raise EnvironmentFault(
            f"{name} is {environ[name]!r}, and not a whole number from {least} to {most}."
        )
    return int(number)


def _number(
    environ: Mapping[str, str], name: str, default: float, least: float, most: float
) -> float:
    value = environ.get(name, "") or str(default)
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not least <= number <= most:
        raise EnvironmentFault(f"{name} is {value!r}, and not a number from {least:g} to {most:g}.")
    return number
