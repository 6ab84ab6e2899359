"""kopf, run for real with the operator's handlers against a server of a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kopf
import pytest

from pumas_operator.handlers import build_registry, build_settings
from pumas_operator.json_object import Json
from pumas_operator.kinds import Kind
from pumas_operator.objects import key_of
from support.eventually import eventually
from support.kubeconfig import write_kubeconfig
from support.operator_api import OperatorApi

HOME, LEASE_NAME = "pumas-system", "pumas-operator"


@dataclass
class Told:
    """A sink, and all that it was given, each as one line."""

    lines: list[str] = field(default_factory=list)

    def seen(self, kind: Kind, body: Json) -> None:
        self.lines.append(f"seen {kind.name} {key_of(body).name}")

    def gone(self, kind: Kind, body: Json) -> None:
        self.lines.append(f"gone {kind.name} {key_of(body).name}")

    def relisted(self) -> None:
        self.lines.append("relisted")

    async def until(self, *lines: str) -> None:
        """These are told, in any order, and nothing else since the last time."""
        await eventually(lambda: len(self.lines) >= len(lines), f"{lines} of {self.lines}")
        told, self.lines = self.lines, []
        assert sorted(told) == sorted(lines)


@asynccontextmanager
async def watching(
    api: OperatorApi,
    folder: Path,
    *,
    at_home: bool = False,
    namespaces: tuple[str, ...] = (),
    pulse: Callable[[], None] | None = None,
    sink: Any = None,
) -> AsyncIterator[Told]:
    """kopf runs while the block lasts, outlives it, and has sent nothing but GETs."""
    told = Told()
    ready = asyncio.Event()
    registry = build_registry(sink or told, at_home=at_home, lease=LEASE_NAME, pulse=pulse)
    settings = build_settings(at_home=at_home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(write_kubeconfig(folder, api.server.url)))
        running = asyncio.create_task(
            kopf.operator(
                registry=registry,
                settings=settings,
                identity="a",  # type: ignore[arg-type]
                standalone=True,
                namespaces=namespaces,
                clusterwide=not namespaces,
                ready_flag=ready,
            )
        )
        try:
            yield told
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert {asked.method for asked in api.server.asked} == {"GET"}
