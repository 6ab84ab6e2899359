"""`pumas serve`: the composition of a node and a router on one machine, and its life.

The processes of the pods are started first and everything heavy is imported while they load: that
is most of the time from the command to the first token.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from pumas_crds.vocabulary import PERMANENT_REASONS, LoadState
from pumas_local.hangups import hangups
from pumas_local.manifest_files import Manifests, read_manifests
from pumas_local.node import Node
from pumas_server.router.listener import is_loopback, listen
from pumas_server.router.stop_signals import stop_signals

if TYPE_CHECKING:
    from pumas_local.terminal import Terminal
    from pumas_server.router.app import Router
    from pumas_server.router.catalog import Catalog
    from pumas_server.router.catalog_row import Row

#: How long a fault that may pass (an engine that ended) is given before `--prompt` gives up.
PASSING_FAULT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What the command line says."""

    manifests: Sequence[Path]
    host: str
    port: int
    data: Path
    max_in_flight: int
    prompt: str | None = None
    once: bool = False


#: The exit status after a second signal, as a shell says it of an interrupted command.
_IMPATIENT = 128 + signal.SIGINT


class CannotServe(Exception):
    """One sentence for the terminal: what is wrong and what to do."""


def serve(options: ServeOptions) -> int:
    """Serve until told to stop. Raises `ManifestError` and `CannotServe` before anything runs."""
    manifests = read_manifests(options.manifests)
    try:
        listener = listen(options.host, options.port)
    except OSError as error:
        raise CannotServe(
            f"Port {options.port} of {options.host} cannot be used ({error.strerror}); "
            "stop what uses it, or choose another with --port."
        ) from None
    with listener, suppress(asyncio.CancelledError):
        return asyncio.run(_serve(options, manifests, listener))
    return _IMPATIENT


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
            propagation_seconds=0,
            # Whoever can reach it is this machine's own user.
            model_management=is_loopback(options.host),
        ),
        node,
    )
    url = _url(options.host, listener.getsockname()[1])
    async with serving(router, listener):
        terminal.say(f"Pumas serves on {url} (Ctrl-C stops)")
        for model in node.unlisted:
            terminal.say(
                f"{model.metadata.name} is not served: an earlier document has its alias "
                f"{model.alias} and profile {model.profile}."
            )
        follow = asyncio.create_task(_follow(router, terminal, began))
        try:
            if options.prompt is None:
                await stop.wait()
                return 0
            return await _first_answer(options, router, terminal, url, stop)
        finally:
            follow.cancel()
            await asyncio.gather(follow, return_exceptions=True)
            if stop.is_set():
                terminal.say("stopping")


async def _follow(router: Router, terminal: Terminal, began: float) -> None:
    """Tell each change of a model's state, and the table whenever all models have settled."""
    told: dict[str, object] = {}
    pictured: object = []
    while True:
        catalog = await router.workers.until(_differs_from(pictured))
        pictured = _picture(catalog)
        for row in catalog.rows:
            state = (row.load_state, row.error)
            if told.get(row.model.metadata.uid) != state:
                told[row.model.metadata.uid] = state
                terminal.change(row, monotonic() - began)
        if all(_settled(row) for row in catalog.rows):
            terminal.table(catalog.rows)


def _picture(catalog: Catalog) -> object:
    """What of a catalogue a person is told."""
    return [(row.load_state, row.error, bool(row.targets), row.facts.mode) for row in catalog.rows]


def _differs_from(pictured: object) -> Callable[[Catalog], bool]:
    return lambda catalog: _picture(catalog) != pictured


def _settled(row: Row) -> bool:
    sleeps = row.model.spec.replicas == 0 and row.facts.mode is not None
    failed = row.error is not None or row.load_state is LoadState.FAILED
    return bool(row.targets) or failed or (row.asleep and sleeps)


async def _first_answer(
    options: ServeOptions, router: Router, terminal: Terminal, url: str, stop: asyncio.Event
) -> int:
    """Stream one answer, then go on serving unless `--once`. Non-zero when there is none."""
    waiting = asyncio.create_task(_wait_for_text_model(router))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            return 0
        row = waiting.result()
        text = await _answer(url, row, options.prompt or "", terminal)
        line = "completion: " + text.replace("\n", "\\n")
        if options.once:
            terminal.commands(url, row)
            terminal.say(line)
            return 0
        terminal.say(line)
        terminal.commands(url, row)
        await stop.wait()
        return 0
    finally:
        for task in (waiting, stopping):
            task.cancel()
        await asyncio.gather(waiting, stopping, return_exceptions=True)


async def _wait_for_text_model(router: Router) -> Row:
    """The first model that generates text when it is asked. Raises `CannotServe` when none will."""
    from pumas_local.terminal import when_awake

    def ready(catalog: Catalog) -> list[Row]:
        return [row for row in catalog.rows if "text_generation" in when_awake(row)]

    def decided(catalog: Catalog) -> bool:
        return bool(catalog.rows) and (
            bool(ready(catalog)) or all(_settled(row) for row in catalog.rows)
        )

    catalog = await router.workers.until(decided)
    if not ready(catalog) and any(_may_pass(row) for row in catalog.rows):
        try:
            async with asyncio.timeout(PASSING_FAULT_SECONDS):
                catalog = await router.workers.until(lambda c: bool(ready(c)))
        except TimeoutError:
            catalog = router.workers.catalog
    if ready(catalog):
        return ready(catalog)[0]
    raise CannotServe(_why_none(catalog))


def _may_pass(row: Row) -> bool:
    return row.error is not None and row.error.reason not in PERMANENT_REASONS


def _why_none(catalog: Catalog) -> str:
    why = [
        f"{row.alias} cannot serve: {row.error.reason}: {row.error.message}"
        if row.error is not None
        else f"{row.alias} does not generate text."
        for row in catalog.rows
    ]
    return " ".join(why) + " Mend the manifest or the file it names, and run the command again."


async def _answer(url: str, row: Row, prompt: str, terminal: Terminal) -> str:
    from pumas_local.first_answer import NoAnswer, stream_answer
    from pumas_server.telemetry import held_back

    terminal.say(f"{row.alias} goes on from: {prompt}")
    pieces: list[str] = []
    try:
        with held_back():
            async for piece in stream_answer(url, row.alias, row.profile, prompt):
                pieces.append(piece)
                terminal.write(piece)
            terminal.write("\n\n")
    except NoAnswer as error:
        raise CannotServe(f"{row.alias} gave no answer: {error}. Run the command again.") from None
    return "".join(pieces)


def _url(host: str, port: int) -> str:
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{port}"
