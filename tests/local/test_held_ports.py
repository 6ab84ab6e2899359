"""A held port is the one pod's: no other socket gets it, and the servers of the pod do."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
import sys

import pytest

from pumas_local.held_ports import hold_ports
from pumas_server.worker.own_engine import listen

#: Linux's option that narrows the range that a socket's number is chosen from.
IP_LOCAL_PORT_RANGE = 51


def test_nobody_gets_a_held_port_by_its_number() -> None:
    with hold_ports() as ports:
        for port in (ports.engine, ports.supervisor):
            with socket.socket() as other, pytest.raises(OSError) as caught:
                other.bind(("127.0.0.1", port))
            assert caught.value.errno == errno.EADDRINUSE
    with socket.socket() as other:
        other.bind(("127.0.0.1", ports.engine))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux narrows the range of one socket")
def test_nobody_is_given_a_held_port_by_the_system() -> None:
    with hold_ports() as ports, socket.create_server(("127.0.0.1", 0)) as server:
        for port in (ports.engine, ports.supervisor):
            for take in (
                lambda other: other.bind(("127.0.0.1", 0)),
                lambda other: other.connect(server.getsockname()),
            ):
                with socket.socket() as other:
                    only = struct.pack("I", port << 16 | port)
                    other.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, only)
                    with pytest.raises(OSError) as caught:
                        take(other)
                assert caught.value.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL)


def test_pods_that_hold_ports_at_one_time_hold_different_ones() -> None:
    with hold_ports() as first, hold_ports() as second:
        numbers = {first.engine, first.supervisor, second.engine, second.supervisor}
        assert len(numbers) == 4


async def test_every_server_of_a_pod_listens_on_a_held_port() -> None:
    """The supervisor's, our own engines', and llama.cpp's, which asks for SO_REUSEPORT alone."""
    with hold_ports() as ports:
        supervisor = await asyncio.start_server(
            lambda reader, writer: None, "127.0.0.1", ports.supervisor
        )
        supervisor.close()
        await supervisor.wait_closed()
        listen("127.0.0.1", ports.engine).close()
        with socket.socket() as engine:
            engine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            engine.bind(("127.0.0.1", ports.engine))
            engine.listen()
            with socket.create_connection(("127.0.0.1", ports.engine)) as caller:
                peer, address = engine.accept()
                peer.close()
                assert address == caller.getsockname()
