"""What a router in a cluster is told by its environment. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pumas_server.router.settings import RouterSettings

_DEFAULTS = RouterSettings()
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SHOWN_CHARACTERS = 64
#: With less, a model alone with an idle one could use next to nothing.
_LEAST_SHARE = 0.1

#: Decided and not built yet. Ignored, they would promise what is not done.
_NOT_BUILT = ("PUMAS_TOKENS_FILE",)


class EnvironmentFault(Exception):
    """A variable is missing or cannot be: one sentence that names it."""


@dataclass(frozen=True, slots=True)
class RouterEnvironment:
    """One router's place and settings."""

    namespace: str
    """Its own, where it keeps its Leases."""
    identity: str
    """What tells it from other routers: its pod's name."""
    port: int
    watched: tuple[str, ...]
    """Namespaces whose models are served; empty: all."""
    key_secret_file: Path
    """What engine keys are derived from."""
    settings: RouterSettings


def read_environment(environ: Mapping[str, str]) -> RouterEnvironment:
    """The environment; raises `EnvironmentFault`. A variable that is empty counts as not set."""
    for name in _NOT_BUILT:
        if environ.get(name):
            raise EnvironmentFault(f"{name} is set, and this release has no such setting.")
    access = environ.get("PUMAS_ACCESS") or "none"
    if access != "none":
        raise EnvironmentFault(
            f"PUMAS_ACCESS is {_shown(access)}; this release knows `none` alone."
        )
    return RouterEnvironment(
        namespace=_namespace(_required(environ, "PUMAS_NAMESPACE", "the chart"), "PUMAS_NAMESPACE"),
        identity=_required(environ, "HOSTNAME", "Kubernetes"),
        port=_whole(environ, "PUMAS_PORT", 8080, 1, 65_535),
        watched=_namespaces(environ, "PUMAS_WATCH_NAMESPACES"),
        key_secret_file=Path(_required(environ, "PUMAS_KEY_SECRET_FILE", "the chart")),
        settings=RouterSettings(
            model_management=_yes(environ, "PUMAS_MODEL_MANAGEMENT", default=False),
            max_in_flight=_whole(
                environ, "PUMAS_MAX_IN_FLIGHT", _DEFAULTS.max_in_flight, 1, 1_000_000
            ),
            model_share=_share(environ, "PUMAS_MODEL_SHARE", _DEFAULTS.model_share),
            max_connections=_whole(
                environ, "PUMAS_MAX_CONNECTIONS", _DEFAULTS.max_connections, 1, 1_000_000
            ),
            external_in_flight=_whole(
                environ, "PUMAS_EXTERNAL_IN_FLIGHT", _DEFAULTS.external_in_flight, 1, 1_000_000
            ),
            image_permits=_whole(environ, "PUMAS_IMAGE_PERMITS", _DEFAULTS.image_permits, 1, 256),
            buffer_bytes=_whole(
                environ, "PUMAS_BUFFER_BYTES", _DEFAULTS.buffer_bytes, 1_048_576, 1_099_511_627_776
            ),
            propagation_seconds=_seconds(
                environ, "PUMAS_PROPAGATION_SECONDS", _DEFAULTS.propagation_seconds, 300
            ),
            drain_seconds=_seconds(environ, "PUMAS_DRAIN_SECONDS", _DEFAULTS.drain_seconds, 86_400),
        ),
    )


def _required(environ: Mapping[str, str], name: str, whoever: str) -> str:
    if not (value := environ.get(name)):
        raise EnvironmentFault(f"{name} is not set; {whoever} sets it.")
    return value


def _yes(environ: Mapping[str, str], name: str, *, default: bool) -> bool:
    match environ.get(name):
        case None | "":
            return default
        case "true":
            return True
        case "false":
            return False
        case text:
            raise EnvironmentFault(f"{name} is {_shown(text)}, and neither `true` nor `false`.")


def _whole(environ: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = environ.get(name) or str(default)
    # Python's own reading takes more: signs, underscores, digits of other scripts.
    number = int(text) if re.fullmatch(r"[0-9]{1,15}", text) else -1
    if not least <= number <= most:
        raise EnvironmentFault(
            f"{name} is {_shown(text)}, and not a whole number from {least} to {most}."
        )
    return number


def _seconds(environ: Mapping[str, str], name: str, default: float, most: int) -> float:
    text = environ.get(name) or str(default)
    number = float(text) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) else -1
    if not 0 <= number <= most:
        raise EnvironmentFault(
            f"{name} is {_shown(text)}, and not a number of seconds from 0 to {most}."
        )
    return number


def _share(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name) or str(default)
    number = float(text) if re.fullmatch(r"[01](\.[0-9]{1,9})?", text) else -1
    if not _LEAST_SHARE <= number <= 1:
        raise EnvironmentFault(
            f"{name} is {_shown(text)}, and not a number from {_LEAST_SHARE:g} to 1."
        )
    return number


def _namespaces(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    names = [part.strip() for part in environ.get(name, "").split(",")]
    return tuple(dict.fromkeys(_namespace(part, name) for part in names if part))


def _namespace(text: str, name: str) -> str:
    if not _NAMESPACE.fullmatch(text):
        raise EnvironmentFault(
            f"{name} holds {_shown(text)}, and a namespace's name is at most 63 characters "
            "of a-z, 0-9 and `-`."
        )
    return text


def _shown(text: str) -> str:
    """A value as a message can hold it: quoted, escaped, and not too long."""
    short = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
    return repr(short)
