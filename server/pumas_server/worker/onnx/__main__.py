"""The ONNX engine as a process: `python -P -m pumas_server.worker.onnx`, llama-server's surface.

It listens at once and loads then. An unknown flag exits 2; a model that cannot be served and a port
that is taken exit 1, with the reason on stderr in an engine's ` E ` line. SIGTERM ends it at once.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.onnx.device import AUTO, DEVICES
from pumas_server.worker.onnx.fault import EngineFault
from pumas_server.worker.onnx.served import Served
from pumas_server.worker.onnx.server import EngineServer
from pumas_server.worker.own_engine import (
    Unservable,
    bounded,
    listen,
    read_key,
    say,
    serve,
)

NAME = "onnx"
EMBED = "embed"
RERANK = "rerank"
GENERATE_IMAGE = "generate-image"
SLOTS_LIMIT = 256


class Settings(argparse.Namespace):
    """The flags."""

    file: Path
    alias: str
    host: str
    port: int
    api_key_file: Path | None
    threads: int
    slots: int
    device: str
    mode: str
    steps: int | None
    guidance: float | None


def read_settings(arguments: list[str]) -> Settings:
    """The flags' values; exits 2 for flags that are not known."""
    parser = argparse.ArgumentParser(prog="pumas-onnx", allow_abbrev=False)
    parser.add_argument("-m", dest="file", type=Path, required=True)
    parser.add_argument("-a", dest="alias", default="model")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=bounded(0, 65_535), default=8080)
    parser.add_argument("--api-key-file", type=Path)
    parser.add_argument("-t", dest="threads", type=bounded(1, 1024), default=1)
    parser.add_argument("-np", dest="slots", type=bounded(1, SLOTS_LIMIT), default=1)
    parser.add_argument("--device", choices=DEVICES, default=AUTO)
    parser.add_argument("--mode", choices=(EMBED, RERANK, GENERATE_IMAGE), default=EMBED)
    parser.add_argument("--steps", type=bounded(1, 1000))
    parser.add_argument("--guidance", type=float)
    return parser.parse_args(arguments, namespace=Settings())


def load(settings: Settings) -> Served:
    """Load the model for its mode. Raises `Unservable`, naming what stands against it."""
    try:
        if settings.mode == GENERATE_IMAGE:
            return _load_image_model(settings)
        return _load_encoder(settings)
    except (HeaderFault, EngineFault) as fault:
        raise Unservable(str(fault)) from None
    except OSError as error:
        told = error.strerror or "input/output error"
        raise Unservable(f"a file of the model cannot be read: {told}") from None
    except MemoryError:
        raise Unservable("there is not enough memory for the model") from None


def _load_encoder(settings: Settings) -> Served:
    # Imported here, in the thread that loads: the listener has been open for a while by then.
    from pumas_server.worker.onnx.loading import load_encoder

    return load_encoder(settings.file, settings.mode == RERANK, settings.device, settings.threads)


def _load_image_model(settings: Settings) -> Served:
    from pumas_server.worker.diffusion.image_model import load_image_model
    from pumas_server.worker.onnx_model import pipeline_root

    return load_image_model(
        pipeline_root(settings.file),
        settings.device,
        settings.threads,
        settings.steps,
        settings.guidance,
    )


def main(arguments: list[str]) -> int:
    """Serve until a signal ends the process."""
    settings = read_settings(arguments)
    # The tokenizer's threads, which it counts when it is loaded.
    os.environ["RAYON_NUM_THREADS"] = str(settings.threads)
    try:
        key = read_key(settings.api_key_file)
        build = f"onnxruntime {_library_version()}"
        listener = listen(settings.host, settings.port)
    except Unservable as reason:
        say(NAME, str(reason))
        return 1
    asyncio.run(
        _serve(settings, EngineServer(settings.alias, key, settings.slots, build), listener)
    )
    return 0


async def _serve(settings: Settings, app: EngineServer, listener: socket.socket) -> None:
    def bring_up() -> None:
        app.serve(load(settings))

    await serve(NAME, app, listener, bring_up)


def _library_version() -> str:
    """From the installed package: importing it takes as long as some models."""
    for package in ("onnxruntime", "onnxruntime-gpu"):
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    raise Unservable("onnxruntime is not installed")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
