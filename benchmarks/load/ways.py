"""The ways to the provider: itself, a bare forwarder, our router, LiteLLM. Each one process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from load import litellm_proxy
from load.processes import GENERATOR_CORE, HERE, ROUTER_CORE, Way, started

PROVIDER_PORT, FORWARDER_PORT, OURS_PORT, LITELLM_PORT = 9101, 9102, 9103, 9104
_MODEL = """\
apiVersion: serving.pumas.dev/v1alpha1
kind: ServedModel
metadata: {{name: {name}}}
spec: {{runtime: external{task}, endpoint: {{url: '{url}', model: m}}}}
"""
_TASKS = {"m": "", "e": ", task: feature-extraction", "r": ", task: text-ranking"}


@contextmanager
def all_ways(folder: Path, *, with_litellm: bool) -> Iterator[dict[str, Way]]:
    """The provider and every router in front of it, each started and waited for."""
    provider = f"http://127.0.0.1:{PROVIDER_PORT}"
    forwarder, ours, litellm = (
        f"http://127.0.0.1:{port}" for port in (FORWARDER_PORT, OURS_PORT, LITELLM_PORT)
    )
    with ExitStack() as running:
        command: list[str | Path] = [sys.executable, HERE / "provider.py", str(PROVIDER_PORT)]
        process = running.enter_context(started(GENERATOR_CORE, command, f"{provider}/v1/models"))
        ways = {"direct": Way("direct", provider, process, is_provider=True)}

        command = [
            *(sys.executable, "-m", "uvicorn", "forwarder:app", "--app-dir", HERE),
            *("--port", str(FORWARDER_PORT), "--log-level", "warning", "--no-access-log"),
        ]
        process = running.enter_context(
            started(ROUTER_CORE, command, f"{forwarder}/v1/models", {"PROVIDER": provider})
        )
        ways["bare"] = Way("bare", forwarder, process)

        manifest = folder / "models.yaml"
        manifest.write_text(build_manifest(provider))
        command = [sys.executable, HERE / "ours.py", manifest, str(OURS_PORT)]
        process = running.enter_context(started(ROUTER_CORE, command, f"{ours}/readyz"))
        ways["ours"] = Way("ours", ours, process)

        if with_litellm:
            command = litellm_proxy.build_command(folder, provider, LITELLM_PORT)
            process = running.enter_context(
                started(
                    ROUTER_CORE,
                    command,
                    f"{litellm}/health/liveliness",
                    litellm_proxy.ENVIRONMENT,
                    litellm_proxy.STARTING_SECONDS,
                )
            )
            ways["LiteLLM"] = Way("LiteLLM", litellm, process)
        yield ways


def build_manifest(provider: str) -> str:
    """Our router's models: one that chats, one that embeds, one that ranks."""
    return "---\n".join(
        _MODEL.format(name=name, task=task, url=provider) for name, task in _TASKS.items()
    )
