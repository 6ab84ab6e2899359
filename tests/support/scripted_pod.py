"""Pods whose containers are a few lines of Python, for a kubelet that must not care."""

from __future__ import annotations

import textwrap
from typing import Any

from pumas_local.pod import Deployment

#: What scripts have at hand: their folder, the ports, and how to answer probes with a status
#: that a file holds. `serve` never returns.
PRELUDE = """
import json, os, signal, socket, subprocess, sys, threading, time
run = os.environ["PUMAS_RUN"]
def note(name, text=""):
    with open(os.path.join(run, name), "a") as file: file.write(str(text) + "\\n")
def read(name, default=""):
    try: return open(os.path.join(run, name)).read()
    except FileNotFoundError: return default
def leave(**told):
    open(os.path.join(run, "termination-log"), "w").write(json.dumps(told))
def serve():
    listener = socket.create_server(("127.0.0.1", int(os.environ["SUPERVISOR_PORT"])))
    while True:
        peer, _ = listener.accept()
        path = peer.recv(4096).split(b" ")[1].decode()
        status = read(path.strip("/"), "200").strip()
        peer.sendall(f"HTTP/1.1 {status} X\\r\\nContent-Length: 0\\r\\n\\r\\n".encode())
        peer.close()
"""


def script(body: str) -> list[str]:
    """The command of a container that runs `body`."""
    return ["python", "-c", PRELUDE + textwrap.dedent(body)]


def probe(path: str, failure_threshold: int = 2) -> dict[str, Any]:
    """A probe with a period that a test can wait for."""
    return {
        "httpGet": {"path": path, "port": "supervisor"},
        "periodSeconds": 0.05,
        "timeoutSeconds": 2,
        "failureThreshold": failure_threshold,
    }


def scripted_deployment(
    server: str, *, fetch: str | None = None, grace: float = 10, **probes: Any
) -> Deployment:
    """A Deployment of a serving container, and perhaps an init container before it."""

    def container(name: str, body: str) -> dict[str, Any]:
        path = "/run/pumas/termination-log"
        return {"name": name, "command": script(body), "terminationMessagePath": path}

    spec: dict[str, Any] = {
        "terminationGracePeriodSeconds": grace,
        "containers": [container("server", server) | probes],
    }
    if fetch is not None:
        spec["initContainers"] = [container("fetch", fetch)]
    return Deployment.model_validate(
        {"metadata": {"name": "scripted"}, "spec": {"template": {"spec": spec}}}
    )
