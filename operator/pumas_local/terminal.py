"""What a person sees of `pumas serve`: calm lines, one table, commands to go on with."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pumas_crds.served_model import ServedModel
from pumas_crds.vocabulary import Reason
from pumas_server.contract.descriptors import Available
from pumas_server.router.catalog_row import Row

_STYLES = {"loaded": "green", "failed": "red", "loading": "yellow"}


class Terminal:
    """Writes to the person at the terminal. Colour only where there is one."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False, soft_wrap=True)

    def say(self, sentence: str) -> None:
        """One line."""
        self._console.print(Text(sentence))

    def write(self, piece: str) -> None:
        """A piece of streamed text, as it comes."""
        self._console.file.write(piece)
        self._console.file.flush()

    def change(self, row: Row, seconds: float) -> None:
        """One line on a model whose state changed."""
        line = Text(f"{seconds:6.1f} s  {row.alias}  ")
        line.append(row.load_state, _STYLES.get(row.load_state, ""))
        if row.error is not None:
            line.append(f"  {row.error.reason}: {row.error.message}{_where(row)}")
        elif row.asleep and row.model.spec.replicas == 0:
            line.append("  (a request loads it)")
        self._console.print(line)

    def unlisted(self, model: ServedModel, seconds: float) -> None:
        """One line on a model that the catalogue does not list, since another has its identity."""
        line = Text(f"{seconds:6.1f} s  {_name_unlisted(model)}  ")
        line.append(model.status.load_state, _STYLES.get(model.status.load_state, ""))
        if model.status.error is not None:
            line.append(f"  {model.status.error.reason}: {model.status.error.message}")
        self._console.print(line)

    def table(self, rows: Sequence[Row], unlisted: Sequence[ServedModel] = ()) -> None:
        """The served models and what each can do now, and below them those that are not listed."""
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
        for heading in ("MODEL", "PROFILE", "STATE", "CONTEXT", "AVAILABLE CAPABILITIES"):
            table.add_column(heading, overflow="fold")
        for row in rows:
            state = Text(row.load_state, _STYLES.get(row.load_state, ""))
            context = str(row.facts.context_tokens) if row.facts.context_tokens else "-"
            table.add_row(row.alias, row.profile, state, context, _capabilities(row))
        for model in unlisted:
            state = Text(model.status.load_state, _STYLES.get(model.status.load_state, ""))
            why = f"none ({model.status.error.reason})" if model.status.error else "none"
            table.add_row(_name_unlisted(model), model.profile, state, "-", why)
        self._console.print()
        self._console.print(table)
        self._console.print()

    def commands(self, url: str, row: Row) -> None:
        """Commands that go on from here."""
        self.say("Go on with:")
        for command in build_commands(url, row):
            self.say(f"  {command}")


def _where(row: Row) -> str:
    """Where an external server was looked for, which only the user's own terminal tells."""
    endpoint = row.model.spec.endpoint
    if endpoint is None or row.error is None or row.error.reason is not Reason.NO_ENDPOINT:
        return ""
    return f" ({endpoint.root()})"


def _name_unlisted(model: ServedModel) -> str:
    """Its own name too: the alias is another's."""
    return f"{model.alias} ({model.metadata.name})"


def _capabilities(row: Row) -> str:
    names = available(row)
    if names:
        return ", ".join(names)
    if row.asleep:
        return "on demand: " + ", ".join(when_awake(row))
    if row.error is not None:
        return f"none ({row.error.reason})"
    reasons = {
        d.availability.reason for d in row.descriptors if d.availability.state != "available"
    }
    return f"none ({', '.join(sorted(reasons))})"


def available(row: Row) -> list[str]:
    """Names of the capabilities that can be used now."""
    return [d.capability for d in row.descriptors if isinstance(d.availability, Available)]


def when_awake(row: Row) -> list[str]:
    """Names of the capabilities of which a request can be made: one that sleeps is waked by it."""
    offered = row.awake_descriptors if row.asleep else row.descriptors
    return [d.capability for d in offered if isinstance(d.availability, Available)]


def build_commands(url: str, row: Row) -> list[str]:
    """One curl line for discovery and one for each way to ask."""
    operation = json.dumps(
        {
            "contract_version": 1,
            "request_id": "example:1",
            "model": row.alias,
            "capability": "text_generation",
            "input": {"kind": "text", "text": "Once upon a time"},
            "output": "text",
            "options": {"kind": "text_generation", "max_tokens": 32},
        }
    )
    completion = json.dumps(
        {"model": row.alias, "prompt": "Once upon a time", "max_tokens": 32, "stream": True}
    )
    return [
        f"curl -s {url}/v1/served-models",
        f"curl -s {url}/v1/model-operations -d {shlex.quote(operation)}",
        f"curl -sN {url}/v1/completions -d {shlex.quote(completion)}",
    ]
