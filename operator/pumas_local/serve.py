"""`pumas serve`: the composition of a node and a router on one machine, and its life.

The processes of the pods are started first and everything heavy is imported while they load: that
is most of the time from the command to the first token.
"""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from pumas_local.cannot_serve import CannotServe
from pumas_local.folder import check_data_folder
from pumas_local.hangups import hangups
from pumas_local.manifest_files import Manifests, read_manifests
from pumas_local.node import Node
from pumas_server.router.lasting_objects import set_lasting_apart
from pumas_server.router.listener import is_loopback, listen
from pumas_server.router.stop_signals import stop_signals

if TYPE_CHECKING:
    from pumas_local.terminal import Terminal
    from pumas_server.router.app import Router
    from pumas_server.router.catalog import Catalog


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What the command line says."""

    manifests: Sequence[Path]
    host: str
    port: int
    data: Path
    max_in_flight: int
    external_in_flight: int = 64
    prompt: str | None = None
    compare: Sequence[str] = ()
    once: bool = False


NO_MODEL = "No model is served: the manifests hold no ServedModel."

#: The exit status after a second signal, as a shell says it of an interrupted command.
_IMPATIENT = 128 + signal.SIGINT


def serve(options: ServeOptions) -> int:
    """Serve until told to stop. Raises `ManifestError` and `CannotServe` before anything runs."""
    manifests = read_manifests(options.manifests)
    try:
        listener = listen(options.host, options.port)
    except OSError as error:
        raise CannotServe(_why_not(options.host, options.port, error)) from None
    with listener, suppress(asyncio.CancelledError):
        _check_data_folder(options.data)
        return asyncio.run(_serve(options, manifests, listener))
    return _IMPATIENT


#: What binding says when the port is the reason; anything else is about the address.
_OF_THE_PORT = frozenset({errno.EADDRINUSE, errno.EACCES, errno.EPERM})


def _why_not(host: str, port: int, error: OSError) -> str:
    if error.errno in _OF_THE_PORT:
        return (
            f"Port {port} of {host} cannot be used ({error.strerror}); "
            "stop what uses it, or choose another with --port."
        )
    return f"The address {host} cannot be used ({error.strerror}); choose another with --host."


def _check_data_folder(data: Path) -> None:
    try:
        check_data_folder(data)
    except OSError as error:
        raise CannotServe(
            f"The data folder {data} cannot be used ({error.strerror}); choose another with --data."
        ) from None


async def _serve(options: ServeOptions, manifests: Manifests, listener: socket.socket) -> int:
    began = monotonic()
    stop = asyncio.Event()
    node = Node(manifests, options.data)
    with stop_signals(stop), hangups(options.manifests, node, stop):
        try:
            await node.start()
            return await _route(options, node, listener, stop, began)
        finally:
            await node.stop()


async def _route(
    options: ServeOptions,
    node: Node,
    listener: socket.socket,
    stop: asyncio.Event,
    began: float,
) -> int:
    # In a thread: the loop goes on with the pods, which need it between fetching and serving.
    for module in ("pumas_local.terminal", "pumas_server.router.server"):
        await asyncio.to_thread(import_module, module)
    from pumas_local.terminal import Terminal
    from pumas_server.router.app import Router
    from pumas_server.router.server import serving
    from pumas_server.router.settings import RouterSettings
    from pumas_server.telemetry import configure_logging

    configure_logging()
    terminal = Terminal()
    router = Router(
        node.source,
        RouterSettings(
            max_in_flight=options.max_in_flight,
            external_in_flight=options.external_in_flight,
            propagation_seconds=0,
            # Whoever can reach it is this machine's own user.
            model_management=is_loopback(options.host),
        ),
        node,
    )
    url = _url(options.host, listener.getsockname()[1])
    async with serving(router, listener):
        set_lasting_apart()
        terminal.say(f"Pumas serves on {url} (Ctrl-C stops)")
        if node.empty:
            terminal.say(NO_MODEL)
        follow = asyncio.create_task(_follow(node, router, terminal, began))
        try:
            return await _show(options, node, router, terminal, url, stop)
        finally:
            follow.cancel()
            await asyncio.gather(follow, return_exceptions=True)
            if stop.is_set():
                terminal.say("stopping")


async def _follow(node: Node, router: Router, terminal: Terminal, began: float) -> None:
    """Tell each change of a model's state, and the table whenever all models have settled."""
    from pumas_local.settled import is_settled

    told: dict[str, object] = {}
    pictured: object = []
    while True:
        catalog = await router.workers.until(_differs_from(pictured))
        pictured = _picture(catalog)
        for model in node.unlisted:
            if told.get(model.metadata.uid) != model.status.error:
                told[model.metadata.uid] = model.status.error
                terminal.unlisted(model, monotonic() - began)
        for row in catalog.rows:
            state = (row.load_state, row.error)
            if told.get(row.model.metadata.uid) != state:
                told[row.model.metadata.uid] = state
                terminal.change(row, monotonic() - began)
        if node.empty:
            terminal.say(NO_MODEL)
        elif all(is_settled(row) for row in catalog.rows):
            terminal.table(catalog.rows, node.unlisted)


def _picture(catalog: Catalog) -> object:
    """What of a catalogue a person is told."""
    return [(row.load_state, row.error, bool(row.targets), row.facts.mode) for row in catalog.rows]


def _differs_from(pictured: object) -> Callable[[Catalog], bool]:
    return lambda catalog: _picture(catalog) != pictured


async def _show(
    options: ServeOptions,
    node: Node,
    router: Router,
    terminal: Terminal,
    url: str,
    stop: asyncio.Event,
) -> int:
    """What was asked to be shown, then serving until told to stop, unless `--once`."""
    if options.prompt is None and not options.compare:
        await stop.wait()
        return 0
    if node.empty:
        raise CannotServe("--prompt and --compare need a model, and no manifest holds one.")
    from pumas_local.demonstration import Demonstration

    showing = asyncio.create_task(
        Demonstration(router, terminal, url).show(options.prompt, options.compare, options.once)
    )
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({showing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if showing.done():
            showing.result()
            if not options.once:
                await stop.wait()
        return 0
    finally:
        for task in (showing, stopping):
            task.cancel()
        await asyncio.gather(showing, stopping, return_exceptions=True)


def _url(host: str, port: int) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"
