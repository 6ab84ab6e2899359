"""The `pumas` command. Every failure is one sentence on stderr and a non-zero exit."""

from __future__ import annotations

import io
import json
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from pumas_crds.vocabulary import DISTRIBUTION, Task

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


def build_info() -> dict[str, object]:
    """Build and protocol identity; no route reports another."""
    from pumas_crds.facts import DESCRIPTOR_VERSION
    from pumas_crds.vocabulary import API_VERSION
    from pumas_server.contract.registry import SUPPORTED_CONTRACT_VERSIONS

    return {
        "name": DISTRIBUTION,
        "version": version(DISTRIBUTION),
        "supported_contract_versions": list(SUPPORTED_CONTRACT_VERSIONS),
        "api_version": API_VERSION,
        "descriptor_version": DESCRIPTOR_VERSION,
        "engine": _engine_version(),
        "python": platform.python_version(),
        "platform": f"{platform.system()}-{platform.machine()}".lower(),
    }


def _engine_version() -> str | None:
    try:
        return f"xllamacpp {version('xllamacpp')}"
    except PackageNotFoundError:
        return None


def _read_task(word: str) -> Task:
    from pumas_crds.recorded_task import describe_no_task

    try:
        return Task(word)
    except ValueError:
        raise typer.BadParameter(f"{describe_no_task(word)}.") from None


def _print_build_info(wanted: bool) -> None:
    if wanted:
        typer.echo(json.dumps(build_info()))
        raise typer.Exit


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pumas {version(DISTRIBUTION)}")
        raise typer.Exit


@app.callback()
def pumas(
    own_version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version.",
        ),
    ] = False,
    build_info: Annotated[
        bool,
        typer.Option(
            "--build-info",
            callback=_print_build_info,
            is_eager=True,
            help="Print what this build is, as one JSON object.",
        ),
    ] = False,
) -> None:
    """Serve models as typed, honest operations."""


@app.command()
def serve(
    manifests: Annotated[
        list[Path], typer.Argument(metavar="MANIFEST...", help="YAML files to serve.")
    ],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8080,
    data: Annotated[Path | None, typer.Option(help="Folder for run files and caches.")] = None,
    max_in_flight: Annotated[
        int, typer.Option(min=1, help="Calls that are admitted at once.")
    ] = 1024,
    external_in_flight: Annotated[
        int, typer.Option(min=1, help="Calls of one external server that are admitted at once.")
    ] = 64,
    prompt: Annotated[
        str | None, typer.Option(help="Stream one completion of this text to the terminal.")
    ] = None,
    compare: Annotated[
        list[str] | None,
        typer.Option(help="Text; given twice or more, how alike the first is to each other."),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="With --prompt or --compare: exit after that answer.")
    ] = False,
) -> None:
    """Serve the models of the given manifests on this machine until Ctrl-C."""
    from pumas_local.cannot_serve import CannotServe
    from pumas_local.manifest_files import ManifestError
    from pumas_local.serve import ServeOptions
    from pumas_local.serve import serve as run

    texts = compare or []
    if once and prompt is None and not texts:
        raise typer.BadParameter("--once needs --prompt or --compare", param_hint="--once")
    if len(texts) == 1:
        raise typer.BadParameter("give two texts or more", param_hint="--compare")
    folder = data or default_data_folder()
    options = ServeOptions(
        manifests,
        host,
        port,
        folder,
        max_in_flight,
        external_in_flight=external_in_flight,
        prompt=prompt,
        compare=texts,
        once=once,
    )
    try:
        status = run(options)
    except (ManifestError, CannotServe) as error:
        typer.echo(f"pumas: {error}", err=True)
        raise typer.Exit(1) from None
    raise typer.Exit(status)


@app.command()
def inspect(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A GGUF file, or an ONNX model's folder.")
    ],
    task: Annotated[
        Task | None,
        typer.Option(
            parser=_read_task,
            metavar="TASK",
            help="What it is to be served for; as a manifest's spec.task.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say what a model file is, and what an engine here would serve it as, or why it would not."""
    from pumas_local.file_sheet import print_sheet
    from pumas_local.inspect_file import inspect_file, render_json

    report = inspect_file(file, task)
    if as_json:
        typer.echo(render_json(report))
    else:
        print_sheet(report)
        if report.error is not None:
            # Not by echo, which writes UTF-8 where the terminal has another encoding.
            told = report.sentence or report.error.message
            print(f"pumas: {report.error.reason}: {told}", file=sys.stderr)
    if report.error is not None:
        raise typer.Exit(1)


def default_data_folder() -> Path:
    """Where this user's state belongs."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "pumas"


def main() -> None:
    """The entry point of `pumas`."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What a terminal of another encoding cannot show is escaped, not a reason to fail.
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.exit(app())
