#!/usr/bin/env python3
"""A container image of one layer, written as an OCI archive with the standard library alone.

Files, folders and links, or a whole root folder, become one tar layer; a config and an index name
it. Owners are kept, times are zeroed and names sorted, so the same input gives the same bytes.
containerd and buildah read the archive.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import platform
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

EPOCH = "1970-01-01T00:00:00Z"
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def full_name(name: str) -> str:
    """What the kubelet makes of an image's name: the hub's host and a tag, where they are left out."""
    first, _, rest = name.partition("/")
    if not rest:
        name = f"docker.io/library/{name}"
    elif not ("." in first or ":" in first or first == "localhost"):
        name = f"docker.io/{name}"
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"


class Layer:
    """The tar of the image's file system, parents before their children."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._folders: set[str] = set()

    def add_root(self, root: Path) -> None:
        """The tree below `root` with its owners, modes and links; sockets have no place in an image."""
        for base, folders, files in os.walk(root):
            folders.sort()
            for path in (Path(base) / name for name in sorted(folders + files)):
                if not stat.S_ISSOCK(path.lstat().st_mode):
                    self._add(self._tar.gettarinfo(path, str(path.relative_to(root))), path)

    def add_file(self, source: Path, name: str) -> None:
        source = source.resolve()
        self.add_folder(str(Path(name).parent))
        info = self._tar.gettarinfo(source, name.lstrip("/"))
        info.uid = info.gid = 0
        info.mode = 0o755 if os.access(source, os.X_OK) else 0o644
        self._add(info, source)

    def add_folder(self, name: str) -> None:
        for folder in [*reversed(Path(name).parents), Path(name)]:
            entry = str(folder).strip("/")
            if entry in ("", ".") or entry in self._folders:
                continue
            self._folders.add(entry)
            info = tarfile.TarInfo(entry)
            info.type, info.mode = tarfile.DIRTYPE, 0o1777 if entry == "tmp" else 0o755
            self._tar.addfile(info)

    def add_link(self, name: str, target: str) -> None:
        self.add_folder(str(Path(name).parent))
        info = tarfile.TarInfo(name.lstrip("/"))
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, target, 0o777
        self._tar.addfile(info)

    def _add(self, info: tarfile.TarInfo, source: Path) -> None:
        info.uname = info.gname = ""
        info.mtime = 0
        if info.isreg():
            with source.open("rb") as content:
                self._tar.addfile(info, content)
        else:
            self._tar.addfile(info)


def documents(
    layer_digest: str, layer_size: int, config: dict[str, object], names: list[str]
) -> Iterator[tuple[str, bytes]]:
    """The archive's small files: name and content."""
    platform_ = {"architecture": ARCHITECTURES[platform.machine()], "os": "linux"}
    image = encoded(
        {
            "created": EPOCH,
            **platform_,
            "config": config,
            # buildah wants an entry of history for each layer
            "history": [{"created": EPOCH, "created_by": Path(__file__).name}],
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
        }
    )
    manifest = encoded(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("config.v1+json", digest(io.BytesIO(image)), len(image)),
            "layers": [descriptor("layer.v1.tar", layer_digest, layer_size)],
        }
    )
    entry = descriptor("manifest.v1+json", digest(io.BytesIO(manifest)), len(manifest))
    named = [
        {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
        for name in names
    ]
    entries = [{**entry, "platform": platform_, "annotations": words} for words in named]
    yield "oci-layout", encoded({"imageLayoutVersion": "1.0.0"})
    yield "index.json", encoded({"schemaVersion": 2, "manifests": entries})
    for blob in (manifest, image):
        yield f"blobs/sha256/{digest(io.BytesIO(blob))}", blob


def descriptor(kind: str, digest: str, size: int) -> dict[str, object]:
    media = f"application/vnd.oci.image.{kind}"
    return {"mediaType": media, "digest": f"sha256:{digest}", "size": size}


def encoded(document: dict[str, object]) -> bytes:
    return json.dumps(document, sort_keys=True).encode()


def digest(file: IO[bytes]) -> str:
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def write(output: Path, layer: IO[bytes], config: dict[str, object], names: list[str]) -> None:
    """The archive, complete or not at all."""
    layer_digest = digest(layer)
    size = layer.seek(0, os.SEEK_END)
    partial = output.with_suffix(".new")
    with tarfile.open(partial, "w") as archive:
        for name, content in documents(layer_digest, size, config, names):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        info = tarfile.TarInfo(f"blobs/sha256/{layer_digest}")
        info.size = size
        layer.seek(0)
        archive.addfile(info, layer)
    partial.rename(output)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--name", action="append", default=[], help="NAME[:TAG], as in a manifest")
    parser.add_argument("--root", type=Path, help="a folder that is the whole file system")
    parser.add_argument("--file", action="append", default=[], help="SOURCE:NAME")
    parser.add_argument("--folder", action="append", default=[])
    parser.add_argument("--link", action="append", default=[], help="NAME:TARGET")
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("--entrypoint", action="append")
    parser.add_argument("--cmd", action="append")
    parser.add_argument("--full-name", help="print what a name means, and write nothing")
    chosen = parser.parse_args()
    if chosen.full_name:
        print(full_name(chosen.full_name))
        return
    if chosen.output is None or not chosen.name:
        parser.error("--output and --name are needed")
    with tempfile.TemporaryFile(dir=chosen.output.parent) as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
            layer = Layer(tar)
            if chosen.root:
                layer.add_root(chosen.root)
            for folder in chosen.folder:
                layer.add_folder(folder)
            for pair in chosen.file:
                source, _, name = pair.rpartition(":")
                layer.add_file(Path(source), name)
            for pair in chosen.link:
                name, _, target = pair.partition(":")
                layer.add_link(name, target)
        config: dict[str, object] = {"Env": [PATH, *chosen.env], "WorkingDir": "/"}
        config |= {"Entrypoint": chosen.entrypoint} if chosen.entrypoint else {}
        config |= {"Cmd": chosen.cmd} if chosen.cmd else {}
        write(chosen.output, file, config, [full_name(name) for name in chosen.name])


if __name__ == "__main__":
    main()
