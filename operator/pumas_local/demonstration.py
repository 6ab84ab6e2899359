"""What `pumas serve` shows on request: a first completion, and how alike some texts are.

Both are operations like any caller's, made over HTTP with the first model that offers them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pumas_crds.vocabulary import PERMANENT_REASONS
from pumas_local.cannot_serve import CannotServe
from pumas_local.first_answer import NoAnswer, ask_similarities, stream_answer
from pumas_local.settled import is_settled
from pumas_local.terminal import Terminal, when_awake
from pumas_server.contract.words import Capability
from pumas_server.router.app import Router
from pumas_server.router.catalog import Catalog
from pumas_server.router.catalog_row import Row
from pumas_server.telemetry import held_back

#: How long a fault that may pass (an engine that ended) is given before giving up.
PASSING_FAULT_SECONDS = 5.0

#: What a model that is asked for does, and which option asks.
_DOES = {
    Capability.TEXT_GENERATION: ("generate text", "--prompt"),
    Capability.TEXT_EMBEDDING: ("embed text", "--compare"),
}


class Demonstration:
    """Shows what the models of a router do."""

    def __init__(self, router: Router, terminal: Terminal, url: str) -> None:
        self._router = router
        self._terminal = terminal
        self._url = url

    async def show(self, prompt: str | None, compare: Sequence[str], once: bool) -> None:
        """Show each of what is given. Raises `CannotServe` when no model does it.

        With `once` the completion is the last line of all.
        """
        writer: Row | None = None
        text = ""
        with held_back():
            if prompt is not None:
                writer = await self._wait_for(Capability.TEXT_GENERATION)
                text = await self._complete(writer, prompt)
            if compare:
                await self._compare(await self._wait_for(Capability.TEXT_EMBEDDING), compare)
        if writer is None:
            return
        completion = "completion: " + text.replace("\n", "\\n")
        if once:
            self._terminal.commands(self._url, writer)
            self._terminal.say(completion)
        else:
            self._terminal.say(completion)
            self._terminal.commands(self._url, writer)

    async def _complete(self, row: Row, prompt: str) -> str:
        self._terminal.say(f"{row.alias} goes on from: {prompt}")
        pieces: list[str] = []
        try:
            async for piece in stream_answer(self._url, row.alias, row.profile, prompt):
                pieces.append(piece)
                self._terminal.write(piece)
            self._terminal.write("\n\n")
        except NoAnswer as error:
            raise _no_answer(row, error) from None
        return "".join(pieces)

    async def _compare(self, row: Row, texts: Sequence[str]) -> None:
        try:
            found = await ask_similarities(self._url, row.alias, row.profile, texts)
        except NoAnswer as error:
            raise _no_answer(row, error) from None
        self._terminal.say(f"{row.alias} compares with: {texts[0]}")
        for similarity, text in zip(found, texts[1:], strict=True):
            self._terminal.say(f"  {similarity:5.2f}  {text}")
        self._terminal.say("")

    async def _wait_for(self, capability: Capability) -> Row:
        """The first model that does it when it is asked. Raises `CannotServe` when none will."""

        def able(catalog: Catalog) -> list[Row]:
            return [row for row in catalog.rows if capability in when_awake(row)]

        def decided(catalog: Catalog) -> bool:
            return bool(catalog.rows) and (
                bool(able(catalog)) or all(map(is_settled, catalog.rows))
            )

        workers = self._router.workers
        catalog = await workers.until(decided)
        if not able(catalog) and any(map(_may_pass, catalog.rows)):
            try:
                async with asyncio.timeout(PASSING_FAULT_SECONDS):
                    catalog = await workers.until(lambda c: bool(able(c)))
            except TimeoutError:
                catalog = workers.catalog
        if able(catalog):
            return able(catalog)[0]
        raise CannotServe(_why_none(catalog, *_DOES[capability]))


def _no_answer(row: Row, error: NoAnswer) -> CannotServe:
    return CannotServe(f"{row.alias} gave no answer: {error}. Run the command again.")


def _may_pass(row: Row) -> bool:
    return row.error is not None and row.error.reason not in PERMANENT_REASONS


def _why_none(catalog: Catalog, what: str, option: str) -> str:
    why = [
        f"{row.alias} cannot serve: {row.error.reason}: {row.error.message.rstrip('.')}."
        if row.error is not None
        else f"{row.alias} does not {what}."
        for row in catalog.rows
    ]
    if any(row.error is not None for row in catalog.rows):
        advice = "Mend the manifest or the file it names, and run the command again."
    else:
        advice = f"{option} needs a model that does."
    return " ".join([*why, advice])
