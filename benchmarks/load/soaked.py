"""What a soak runs against: a router with four models on a provider that breaks as it is asked."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from load.processes import GENERATOR_CORE, HERE, ROUTER_CORE, lives, started
from load.watched_router import WatchedRouter

PROVIDER_PORT, ROUTER_PORT = 9111, 9113
PROVIDER = f"http://127.0.0.1:{PROVIDER_PORT}"
ROUTER = f"http://127.0.0.1:{ROUTER_PORT}"

_MODEL = """\
apiVersion: serving.pumas.dev/v1alpha1
kind: ServedModel
metadata: {{name: {name}}}
spec: {{runtime: external, task: {task}, endpoint: {{url: '{url}', model: m}}}}
"""
_MODELS = {
    "llm": "text-generation",
    "talk": "text-generation",
    "e": "feature-extraction",
    "r": "text-ranking",
}


@contextmanager
def running(folder: Path) -> Iterator[WatchedRouter]:
    """Provider and router. Raises `RuntimeError` at the end if it was not the same provider."""
    manifest, log = folder / "models.yaml", folder / "router.log"
    manifest.write_text(
        "---\n".join(
            _MODEL.format(name=name, task=task, url=PROVIDER) for name, task in _MODELS.items()
        )
    )
    provider: list[str | Path] = [sys.executable, HERE / "faulty_provider.py", str(PROVIDER_PORT)]
    ours: list[str | Path] = [sys.executable, HERE / "ours.py", manifest, str(ROUTER_PORT)]
    with (
        started(GENERATOR_CORE, provider, f"{PROVIDER}/v1/models") as answering,
        started(ROUTER_CORE, ours, f"{ROUTER}/readyz", log_file=log) as process,
    ):
        yield WatchedRouter(ROUTER, process, log)
        if not lives(answering):
            raise RuntimeError("void: the provider ended, and what was lost was lost by it")


def provider_counts() -> dict[str, int]:
    """What the provider received."""
    with urllib.request.urlopen(f"{PROVIDER}/counts", timeout=30) as answer:
        counts: dict[str, int] = json.load(answer)
    return counts
