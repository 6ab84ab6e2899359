"""`python -m pumas_server.router` as a process: its settings, its readiness, its end."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from pumas_server.router.listener import listen_everywhere
from support.api_server import MODELS, SLICES, ScriptedApiServer, held
from support.background import in_background
from support.cluster_objects import external_object
from support.router_process import COMMAND, RouterProcess, environment
from support.routers import chat_operation
from support.upstream import Conversation, ScriptedUpstream, chat
from support.worker import free_ports, until


class Running(RouterProcess):
    """The process, and a client for it."""

    def __init__(self, folder: Path, server: ScriptedApiServer, **settings: str) -> None:
        super().__init__(folder, server.url, **settings)
        self.client = httpx.Client(base_url=self.url, timeout=10)

    def status(self, path: str) -> int:
        """Of a GET; 0 while nobody answers."""
        try:
            return self.client.get(path).status_code
        except httpx.TransportError:
            return 0

    def until_ready(self) -> None:
        until(lambda: self.runs and self.status("/readyz") == 200, "ready")

    def until_serving(self) -> None:
        def serves() -> bool:
            (row,) = self.client.get("/v1/served-models").json()["models"]
            return bool(row["load_state"] == "loaded")

        self.until_ready()
        until(serves, "the model can be called")


@contextmanager
def routing(folder: Path, server: ScriptedApiServer, **settings: str) -> Iterator[Running]:
    running = Running(folder, server, **settings)
    try:
        yield running
    finally:
        running.client.close()
        running.kill()


@pytest.fixture
def server() -> Iterator[ScriptedApiServer]:
    with in_background(lambda: ScriptedApiServer().serving()) as scripted:
        yield scripted


def refused(**settings: str) -> tuple[int, str]:
    """Exit status and stderr of a router that does not start."""
    done = subprocess.run(
        COMMAND, env=settings, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "settings",
    [
        {"PUMAS_PORT": "x"},
        {"PUMAS_MAX_IN_FLIGHT": "-1"},
        {"PUMAS_ACCESS": "tokens"},
        {"PUMAS_MODEL_MANAGEMENT": "yes"},
        {"PUMAS_NAMESPACE": ""},
        {"PUMAS_NAMESPACE": "Pumas"},
        {"HOSTNAME": ""},
        {"PUMAS_KEY_SECRET_FILE": ""},
        {"PUMAS_KEY_SECRET_FILE": "{folder}/missing"},
        {"PUMAS_KEY_SECRET_FILE": "{folder}"},
        {"PUMAS_KEY_SECRET_FILE": "{folder}/empty"},
    ],
)
def test_a_setting_that_cannot_be_is_one_sentence(tmp_path: Path, settings: dict[str, str]) -> None:
    (tmp_path / "empty").write_text("\n")
    given = {name: value.format(folder=tmp_path) for name, value in settings.items()}
    status, told = refused(**environment(tmp_path) | given)
    assert status == 2
    assert told.count("\n") == 1 and told.endswith(".\n")
    assert next(iter(settings)) in told
    assert str(tmp_path) not in told


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with closing(listen_everywhere(0)) as taken:
        port = str(taken.getsockname()[1])
        status, told = refused(**environment(tmp_path) | {"PUMAS_PORT": port})
    assert (status, told) == (
        1,
        f"Port {port} of PUMAS_PORT cannot be listened on: Address already in use.\n",
    )


def test_no_cluster_is_said(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    settings = environment(tmp_path) | {"PUMAS_PORT": str(port)}
    (tmp_path / "kubeconfig").unlink()
    status, told = refused(**settings)
    assert status == 1
    assert told.count("\n") == 1
    assert told.startswith("No cluster can be reached from here: there is no kubeconfig")
    assert str(tmp_path) not in told


def test_every_address_is_listened_at() -> None:
    with closing(listen_everywhere(0)) as listener:
        port = listener.getsockname()[1]
        socket.create_connection(("127.0.0.1", port), 5).close()
        if listener.family is socket.AF_INET6:
            socket.create_connection(("::1", port), 5).close()


@pytest.mark.parametrize("failing", ["socket", "bind"])
def test_without_ipv6_the_other_family_is_listened_at(
    failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FourOnly(socket.socket):
        def __init__(self, family: int = -1, *rest: Any, **more: Any) -> None:
            if failing == "socket" and family == socket.AF_INET6:
                raise OSError(97, "Address family not supported by protocol")
            super().__init__(family, *rest, **more)

        def bind(self, where: Any) -> None:
            if failing == "bind" and where[0] == "::":
                raise OSError(99, "Cannot assign requested address")
            super().bind(where)

    monkeypatch.setattr(socket, "socket", FourOnly)
    with closing(listen_everywhere(0)) as listener:
        assert listener.family is socket.AF_INET
        assert listener.getsockname()[0] == "0.0.0.0"


def test_it_is_ready_once_it_knows_the_models_and_ends_in_order(
    tmp_path: Path, server: ScriptedApiServer
) -> None:
    gate = asyncio.Event()
    server.fail(SLICES, held(gate, server._list))
    with routing(tmp_path, server, PUMAS_PROPAGATION_SECONDS="2") as running:
        until(lambda: running.status("/healthz") == 200, "it answers")
        until(lambda: server.watches(MODELS), "it watches models")
        assert running.status("/readyz") == 503
        server.loop.call_soon_threadsafe(gate.set)
        running.until_ready()
        assert running.client.get("/v1/served-models").json()["models"] == []
        assert {asked.token for asked in server.asked} == {"Bearer t"}
        running.process.send_signal(signal.SIGTERM)
        until(lambda: running.status("/readyz") == 503, "it says that it goes")
        # And goes on accepting, until everybody has seen it.
        with httpx.Client() as late:
            assert late.get(f"http://127.0.0.1:{running.port}/healthz").status_code == 200
        assert running.process.wait(20) == 0
    assert running.log.read_text() == ""


async def say_one_word(talk: Conversation) -> None:
    await talk.head()
    await talk.chunk(chat("first"))
    await talk.caller_left()


@pytest.mark.parametrize("impatient", [False, True])
def test_a_stop_waits_for_calls_and_a_second_one_does_not(
    tmp_path: Path, server: ScriptedApiServer, impatient: bool
) -> None:
    with in_background(lambda: ScriptedUpstream(say_one_word).serving()) as upstream:
        body = external_object(upstream.url, "llm", task="text-generation")
        body["spec"]["endpoint"]["model"] = "served"
        server.put(MODELS, body)
        drain = "60" if impatient else "0.5"
        with routing(tmp_path, server, PUMAS_DRAIN_SECONDS=drain) as running:
            running.until_serving()
            call = running.client.stream(
                "POST", "/v1/model-operations", json=chat_operation(stream=True)
            )
            with call as answer:
                pieces = answer.iter_text()
                told = ""
                while "first" not in told:
                    told += next(pieces)
                running.process.send_signal(signal.SIGTERM)
                until(lambda: not _listens(running.port), "it stops accepting")
                assert running.process.poll() is None
                if impatient:
                    running.process.send_signal(signal.SIGTERM)
                told += "".join(pieces)
            assert running.process.wait(20) == (128 + signal.SIGTERM if impatient else 0)
        last = json.loads(told.split("data: ")[-1])
        assert (last["kind"], last["error"]["code"]) == ("failed", "transport_lost")
        lines = [json.loads(line) for line in running.log.read_text().splitlines()]
        assert [line["outcome"] for line in lines] == ["unknown"]


def test_a_stop_before_it_serves_is_not_lost(tmp_path: Path, server: ScriptedApiServer) -> None:
    with routing(tmp_path, server) as running:
        until(lambda: _listens(running.port), "it listens")
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(20) == 0
    assert "Traceback" not in running.log.read_text()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except OSError:
        return False
    return True
