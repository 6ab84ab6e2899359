"""docs/contract.md: its commands answer what it shows, and it leaves nothing out."""

from __future__ import annotations

import json
import os
import re
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from pumas_server.capabilities.rows import ROWS
from pumas_server.contract.descriptors import UnavailableReason
from pumas_server.contract.errors import Code, Outcome
from pumas_server.contract.results import FinishReason
from support.readme import ROOT, AtTerminal, Step, at_terminal, missing, steps
from support.worker import until

PAGE = ROOT / "docs/contract.md"
TEXT = PAGE.read_text()
STEPS = steps(TEXT)
_BODY = re.compile(r" -d '(\{.*\})'")

#: What no command brings about while engine and network are sound.
NOT_TO_BE_HAD = {Code.INVALID_PROVIDER_RESULT, Code.RESPONSE_LIMIT, Code.TRANSPORT_LOST}


def serve(running: ExitStack, step: Step, state: Path) -> AtTerminal:
    """The step's server."""
    terminal = running.enter_context(
        at_terminal(step.command, os.environ | {"XDG_STATE_HOME": str(state)})
    )
    terminal.read_until("(Ctrl-C stops)", 90)
    return terminal


def await_models(step: Step) -> None:
    """Wait until every model of the step's server has something available."""
    files = re.findall(r"crds/\S+\.yaml", step.command)
    wanted = sum((ROOT / file).read_text().count("kind: ServedModel") for file in files)
    with httpx.Client() as client:

        def all_serve() -> bool:
            rows = client.get("http://127.0.0.1:8080/v1/served-models").json()["models"]
            offers: list[set[str]] = [
                {c["availability"]["state"] for c in row["capabilities"]} for row in rows
            ]
            return bool(wanted == sum("available" in states for states in offers))

        until(all_serve, f"all {wanted} models of `{step.command}`", 120)


@pytest.mark.xdist_group("readme")
def test_its_commands_answer_what_it_shows(tmp_path: Path) -> None:
    with ExitStack() as running:
        terminal: AtTerminal | None = None
        for step in STEPS:
            if "pumas serve" in step.command:
                if terminal is not None:
                    assert terminal.interrupt() == 0, terminal.output
                first, terminal = terminal is None, serve(running, step, tmp_path)
                if first:
                    # The second shows what is refused before any model has loaded.
                    await_models(step)
                output = terminal.output
            else:
                output = subprocess.run(
                    ["bash", "-c", step.command],
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=100,
                ).stdout
            line = missing(step.shown, output)
            assert line is None, f"`{step.command}` did not print {line!r}; it printed:\n{output}"
        assert terminal is not None
        assert terminal.interrupt() == 0, terminal.output


def requests() -> list[dict[str, Any]]:
    """The bodies of the operations that the page sends."""
    found = [_BODY.search(s.command) for s in STEPS if "/v1/model-operations" in s.command]
    bodies = [re.sub(r"'\"\$\(.*?\)\"'", "x", match[1]) for match in found if match]
    return [json.loads(body) for body in bodies]


def answers() -> list[dict[str, Any]]:
    """The answers of the contract that the page shows."""
    lines = [line for step in STEPS for line in step.shown]
    return [json.loads(line) for line in lines if line.startswith('{"contract_version"')]


def test_every_capability_is_shown() -> None:
    shown = {(r["input"]["kind"], r["output"]) for r in requests()}
    for row in ROWS:
        if not row.adapter:
            continue
        assert f"`{row.capability}`" in TEXT
        formats = {
            f.removeprefix("messages_").replace("text", "messages") for f in row.input_formats
        }
        kinds = {*map(str, row.input_formats), *formats}
        assert any((kind, output) in shown for kind in kinds for output in row.output_formats)


def test_every_code_is_shown() -> None:
    codes = {answer["error"]["code"] for answer in answers() if "error" in answer}
    assert codes == {*Code} - NOT_TO_BE_HAD
    for word in (*Code, *Outcome, *FinishReason, *UnavailableReason):
        if word != "succeeded":
            assert f"`{word}`" in TEXT


def test_its_links_lead_somewhere() -> None:
    headings = {
        re.sub(r"[^\w\- ]", "", h).strip().lower().replace(" ", "-")
        for h in re.findall(r"^#+ (.*)$", TEXT, re.MULTILINE)
    }
    for target in re.findall(r"\]\(([^)]*)\)", TEXT):
        file, _, heading = target.partition("#")
        assert not file or (PAGE.parent / file).exists(), target
        assert file or heading in headings, target
