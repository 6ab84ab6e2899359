"""`pumas serve` from outside: a model that sleeps, manifests that are read again, who may manage."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.serve import PUMAS, Serving, manifest, serve
from support.worker import until

ON_DEMAND = {"replicas": 0, "activation": {"onDemand": True}}


def chat_file(tiny_models: Path) -> dict[str, Any]:
    return {"source": {"path": str(tiny_models / "tiny-chat.gguf")}}


def test_a_prompt_wakes_a_model_that_sleeps(tmp_path: Path, tiny_models: Path) -> None:
    document = manifest("m", **chat_file(tiny_models), **ON_DEMAND)
    arguments = ("--prompt", "hi", "--once")
    with serve(tmp_path, document, arguments=arguments) as serving:
        assert serving.wait(60) == 0, serving.err
        told = "".join(serving.out)
        assert "m  unloaded  (a request loads it)" in told
        assert "on demand: chat_generation" in told
        assert told.index("goes on from") < told.index("m  loading")
        assert serving.out[-1].startswith("completion: ")


def models(serving: Serving) -> list[str]:
    listed = httpx.get(f"{serving.url}/lmsp/v1/models").json()
    return [each["id"] for each in listed["data"]]


def test_sighup_has_the_manifests_read_again(tmp_path: Path, tiny_models: Path) -> None:
    first = manifest("first", **chat_file(tiny_models), **ON_DEMAND)
    with serve(tmp_path, first) as serving:
        until(lambda: models(serving) == ["first"], "the first", 30)
        file = next(tmp_path.glob("*.yaml"))
        good = file.read_text("utf-8")
        file.write_text("kind: Nonsense\n", "utf-8")
        serving.process.send_signal(signal.SIGHUP)
        until(lambda: "stay as they were" in "".join(serving.err), "a complaint", 30)
        assert models(serving) == ["first"]
        file.write_text(good.replace("first", "second"), "utf-8")
        serving.process.send_signal(signal.SIGHUP)
        until(lambda: models(serving) == ["second"], "the second", 30)


def test_the_end_of_the_terminal_is_the_end(tmp_path: Path, tiny_models: Path) -> None:
    document = manifest("m", **chat_file(tiny_models), **ON_DEMAND)
    (tmp_path / "m.yaml").write_text(json.dumps(document), "utf-8")
    ours, theirs = pty.openpty()
    command = [PUMAS, "serve", tmp_path / "m.yaml", "--port", "0", "--data", tmp_path / "data"]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        told = b""
        while b"a request loads it" not in told:
            told += os.read(ours, 4096)
        os.close(ours)
        process.send_signal(signal.SIGHUP)  # as the kernel does to the terminal's own session
        process.wait(30)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("host", "status"), [("127.0.0.1", 202), ("0.0.0.0", 404)])
def test_only_this_machines_own_user_loads_models(
    tmp_path: Path, tiny_models: Path, host: str, status: int
) -> None:
    document = manifest("m", **chat_file(tiny_models), **ON_DEMAND)
    with serve(tmp_path, document, arguments=("--host", host)) as serving:
        until(lambda: models(serving) == ["m"], "the model", 30)
        answer = httpx.post(f"{serving.url}/lmsp/v1/models/m/load")
        assert answer.status_code == status, answer.text
