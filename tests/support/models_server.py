"""The file server in the cluster that models of the tests are fetched from, with its files."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support import crafted_gguf
from support.client_pod import ClientPod
from support.cluster import SCRIPTS, Kubectl
from support.release import namespace
from support.small_pod import small_deployment
from support.tiny_models import build_chat
from support.tiny_onnx import build_embedder
from support.tiny_pipeline import build_tiny_pipeline

NAMESPACE = "pumas-test-files"
HOST = f"files.{NAMESPACE}.svc"
PROGRAM = "file_server.py"
#: What every map calls its one file: a key may not hold the folders that a name has.
KEY = "content"
PORT = 8080
#: Beside the tiny models: a decoder that generates for long, and what is no model.
LONG = "tiny-chat-long.gguf"
NOT_A_MODEL = "not-a-model.gguf"
EMPTY = "empty.gguf"
PIPELINE = "tiny-pipeline"
#: An embedder, its graph in a folder below its configs; and one that lacks its tokenizer.
ONNX = "tiny-onnx"
#: Its header holds, and no engine knows the family that it names.
UNKNOWN_FAMILY = "unknown-family.gguf"


@dataclass(frozen=True)
class ModelsServer:
    """What is served, and in which ways: `tests/cluster/file_server.py` lists them."""

    folder: Path
    client: ClientPod

    def url(self, name: str, way: str = "plain") -> str:
        """A file's address in the cluster, which it gives in that way."""
        return f"http://{HOST}/{way}/{name}"

    def source(self, name: str, way: str = "plain") -> dict[str, Any]:
        """The same as the source of a model."""
        return {"http": {"url": self.url(name, way)}}

    def digest(self, name: str) -> str:
        """Of the whole file, as `spec.sha256` has it."""
        return hashlib.sha256((self.folder / name).read_bytes()).hexdigest()

    def switch(self, key: str, *, on: bool) -> None:
        """Whether files of the way `switch/KEY` are there."""
        method = "PUT" if on else "DELETE"
        assert self.client.ask(f"http://{HOST}/switch/{key}", method=method).status == 200

    def asked(self, text: str) -> list[dict[str, str]]:
        """Path and range of each request so far with `text` in its path, from whomever."""
        found: list[dict[str, str]] = self.client.ask(f"http://{HOST}/asked/{text}").json()
        return found


def add_odd_files(folder: Path) -> None:
    """The files that are not among the tiny models."""
    build_chat(folder / LONG, context=32768)
    (folder / NOT_A_MODEL).write_bytes(b"<!doctype html>\n<title>Sign in to go on</title>\n")
    (folder / EMPTY).write_bytes(b"")
    unknown = crafted_gguf.gguf_file(crafted_gguf.MODEL, [crafted_gguf.Row()], data=128)
    (folder / UNKNOWN_FAMILY).write_bytes(unknown)
    build_tiny_pipeline(folder / PIPELINE)
    _add_onnx(folder)


def _add_onnx(folder: Path) -> None:
    whole, bare = folder / ONNX, folder / f"{ONNX}-bare"
    build_embedder(whole)
    build_embedder(bare)
    (bare / "tokenizer.json").unlink()


def run_models_server(folder: Path) -> None:
    """Have the server and its files in the cluster; unchanged, it is left as it is."""
    program = SCRIPTS / PROGRAM
    files = {PROGRAM: program} | {
        file.relative_to(folder).as_posix(): file
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }
    told = b"".join(name.encode() + file.read_bytes() for name, file in files.items())
    version = hashlib.sha256(told).hexdigest()
    kubectl = Kubectl(NAMESPACE)
    Kubectl().apply(namespace(NAMESPACE))
    for name, file in files.items():
        # On the server's side: `apply` would keep a copy of the file in an annotation, which is too large.
        kubectl(
            *("apply", "--server-side", "--force-conflicts", "--filename", "-"),
            stdin=json.dumps(_config_map(name, file)),
        )
    projected = [
        {"configMap": {"name": _map_name(name), "items": [{"key": KEY, "path": name}]}}
        for name in files
    ]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "files"},
        "spec": {"selector": {"app": "files"}, "ports": [{"port": 80, "targetPort": PORT}]},
    }
    kubectl.apply(
        small_deployment(
            "files",
            ["python", f"/files/{PROGRAM}", "/files", str(PORT)],
            version,
            volumes=[{"name": "files", "projected": {"sources": projected}}],
            volumeMounts=[{"name": "files", "mountPath": "/files", "readOnly": True}],
            readinessProbe={"httpGet": {"path": "/healthz", "port": PORT}, "periodSeconds": 1},
        ),
        service,
    )
    kubectl("rollout", "status", "deployment/files", "--timeout=90s")


def _config_map(name: str, file: Path) -> dict[str, Any]:
    content = base64.b64encode(file.read_bytes()).decode()
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _map_name(name)},
        "binaryData": {KEY: content},
    }


def _map_name(name: str) -> str:
    return name.replace("_", "-").replace("/", ".").lower()
