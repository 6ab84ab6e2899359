"""Where a serving pod runs: its environment, read once."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from pumas_crds.vocabulary import (
    ENGINE_KEY_FILE,
    ENGINE_PORT,
    MODELS_DIR,
    RUN_DIR,
    SUPERVISOR_PORT,
    Variable,
)
from pumas_crds.worker_spec import WorkerSpec
from pumas_server.worker.launch import LaunchSettings, select_cpus

KEY_FOLDER = "key"
"""The run folder's part that the pod's Secret is mounted at."""
CPU_MAX = Path("/sys/fs/cgroup/cpu.max")


class PlaceFault(Exception):
    """The environment is not one that a serving pod can run in."""


@dataclass(frozen=True, slots=True)
class Place:
    """Address and folders of this pod."""

    host: str
    engine_port: int
    supervisor_port: int
    run_dir: Path
    models_dir: Path = Path(MODELS_DIR)

    @property
    def key_file(self) -> Path:
        """The engine's API key."""
        return self.run_dir / KEY_FOLDER / ENGINE_KEY_FILE

    def read_key(self) -> str:
        """The engine's API key; lines that start with # are comments, as the engine reads it."""
        try:
            lines = self.key_file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise PlaceFault(
                f"the engine's API key cannot be read: {type(error).__name__}"
            ) from None
        for line in lines:
            if line.strip() and not line.startswith("#"):
                return line.strip()
        raise PlaceFault("the file of the engine's API key holds no key")

    def launch_settings(self) -> LaunchSettings:
        """What the engine is told of the place; reads how many CPUs there are."""
        return LaunchSettings(
            host=self.host,
            port=self.engine_port,
            key_file=self.key_file,
            cpus=_count_cpus(),
            models=str(self.models_dir),
            device=_may_have_device(),
        )


def read_place(environ: Mapping[str, str]) -> Place:
    """The place that the environment tells of."""
    return Place(
        host=environ.get(Variable.POD_IP) or "127.0.0.1",
        engine_port=_port(environ, Variable.ENGINE_PORT, ENGINE_PORT),
        supervisor_port=_port(environ, Variable.SUPERVISOR_PORT, SUPERVISOR_PORT),
        run_dir=Path(environ.get(Variable.RUN) or RUN_DIR),
        models_dir=Path(environ.get(Variable.MODELS) or MODELS_DIR),
    )


def read_worker_spec(environ: Mapping[str, str]) -> WorkerSpec:
    """The spec that the environment carries."""
    text = environ.get(Variable.WORKER)
    if text is None:
        raise PlaceFault(f"{Variable.WORKER} is not set: a serving pod needs its WorkerSpec")
    try:
        return WorkerSpec.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the root"
        raise PlaceFault(f"{Variable.WORKER} is no WorkerSpec: {where}: {first['msg']}") from None


def _port(environ: Mapping[str, str], name: Variable, default: int) -> int:
    text = environ.get(name) or str(default)
    if not text.isdecimal() or not 0 < int(text) < 65_536:
        raise PlaceFault(f"{name} is no port: {text[:20]}")
    return int(text)


#: What drivers of devices that llama.cpp can use leave in the file system.
_DEVICE_FILES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg", "/dev/dri")


def _may_have_device() -> bool:
    """Whether the engine may find a device; a Mac always has one."""
    return sys.platform == "darwin" or any(os.path.exists(path) for path in _DEVICE_FILES)


def _count_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        schedulable = len(os.sched_getaffinity(0))
    else:
        schedulable = os.cpu_count() or 1
    try:
        quota = CPU_MAX.read_text(encoding="ascii")
    except OSError:
        quota = ""  # no cgroup v2, or not Linux: no quota is known
    return select_cpus(schedulable, quota)
