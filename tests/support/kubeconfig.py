"""A kubeconfig for a server of a test."""

from __future__ import annotations

from pathlib import Path

import yaml

TOKEN = "token-of-a-test"


def write_kubeconfig(folder: Path, url: str, token: str = TOKEN) -> Path:
    """The file, which names that server and a user with the token."""
    told = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "x", "cluster": {"server": url}}],
        "users": [{"name": "x", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "current-context": "x",
    }
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(told))
    return file
