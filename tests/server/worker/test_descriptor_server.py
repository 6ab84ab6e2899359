"""The pod's own routes, asked by a real client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import httpx
import pytest

from pumas_crds.facts import PodDescriptor, PodState
from pumas_server.worker import descriptor_server
from pumas_server.worker.descriptor_server import CannotListen, DescriptorServer
from support.worker import free_ports


class Pod:
    """A pod in a state."""

    def __init__(self, state: PodState) -> None:
        self.state = state
        self.unready_reason = "The engine ended."

    async def descriptor(self) -> PodDescriptor:
        return PodDescriptor(state=self.state, boot_id="b-1", restarts=2)


@contextlib.asynccontextmanager
async def serving(state: PodState) -> AsyncIterator[httpx.AsyncClient]:
    port = free_ports(1)[0]
    async with (
        DescriptorServer(Pod(state), "127.0.0.1", port),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        yield client


async def test_descriptor_speaks_snake_case() -> None:
    async with serving(PodState.READY) as client:
        answer = await client.get("/descriptor?now")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        body = answer.json()
        assert (body["descriptor_version"], body["boot_id"], body["restarts"]) == (1, "b-1", 2)
        assert PodDescriptor.model_validate_json(answer.content).state is PodState.READY


@pytest.mark.parametrize("state", list(PodState))
async def test_alive_in_every_state_and_ready_in_one(state: PodState) -> None:
    async with serving(state) as client:
        assert (await client.get("/healthz")).status_code == 200
        answer = await client.get("/readyz")
    if state is PodState.READY:
        assert (answer.status_code, answer.json()) == (200, {"ready": True, "state": "ready"})
    else:
        assert answer.status_code == 503
        assert answer.json() == {"ready": False, "state": state, "reason": "The engine ended."}


async def test_other_routes_and_methods() -> None:
    async with serving(PodState.READY) as client:
        assert (await client.get("/")).status_code == 404
        refused = await client.post("/healthz", json={})
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")
        head = await client.head("/healthz")
        assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize("request_bytes", [b"what is this\r\n\r\n", b"GET / HTTP/2.0\r\n\r\n"])
async def test_no_http_request(request_bytes: bytes) -> None:
    async with serving(PodState.READY) as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
        writer.write(request_bytes)
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HT", b"GET /" + b"x" * 100_000])
async def test_a_request_that_never_ends_ends(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(descriptor_server, "REQUEST_SECONDS", 0.1)
    async with serving(PodState.READY) as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
        writer.write(sent)
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        assert (await client.get("/healthz")).status_code == 200


async def test_leaving_it_ends_open_connections() -> None:
    async with serving(PodState.READY) as client:
        reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
        await client.get("/healthz")  # the first connection is being served by now
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()


async def test_a_taken_port_is_one_sentence() -> None:
    async with serving(PodState.READY) as client:
        port = client.base_url.port
        assert port is not None
        with pytest.raises(CannotListen, match=f"port {port} cannot be listened on: Address"):
            async with DescriptorServer(Pod(PodState.READY), "127.0.0.1", port):
                pass
