"""LiteLLM's proxy: installed into an environment of its own, and the command that starts it.

One worker, as all ways here are one process; without keys, a database, telemetry or a look at the
network, which is the least that it does for a call.
"""

from __future__ import annotations

import shutil
import subprocess
import venv
from pathlib import Path

VERSION = "1.108.0"
PIN = f"litellm[proxy]=={VERSION}"
HOME = Path(__file__).parents[2] / ".cache" / "litellm"
ENVIRONMENT = {
    # Its prices are in the package; without this it asks for newer ones as it starts.
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOG": "ERROR",
    # No `.env` file of whoever measures.
    "LITELLM_MODE": "PRODUCTION",
    # It starts without a key only if told so.
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
}
#: Importing takes it long: 16 s were seen on a shared core.
STARTING_SECONDS = 180
_CONFIG = """\
model_list:
  - model_name: m
    litellm_params: {{model: openai/m, api_base: '{url}/v1', api_key: none}}
"""


def install() -> None:
    """Into `.cache/litellm`, unless that very version is there."""
    stamp = HOME / ".installed"
    if stamp.exists() and stamp.read_text() == PIN:
        return
    print(f"installing {PIN} into {HOME} (a minute, once)", flush=True)
    shutil.rmtree(HOME, ignore_errors=True)
    venv.create(HOME, with_pip=True)
    subprocess.run([HOME / "bin" / "pip", "install", "--quiet", PIN], check=True)
    stamp.write_text(PIN)


def build_command(folder: Path, provider: str, port: int) -> list[str | Path]:
    """Its command, with its configuration written into `folder`."""
    config = folder / "litellm.yaml"
    config.write_text(_CONFIG.format(url=provider))
    return [
        *(HOME / "bin" / "litellm", "--config", config),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--num_workers", "1", "--telemetry", "False"),
    ]
