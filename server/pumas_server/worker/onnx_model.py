"""What an ONNX model is, wherever its files lie: one folder of a model, or a pipeline of several.

All of it is read through `Files`: of this machine, of a server for an inspection, or of the cache,
which fetches what is asked for. So what is inspected, fetched and served is one reading.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote

from pumas_crds.facts import FileFacts
from pumas_crds.source import Source
from pumas_crds.vocabulary import ONNX, ONNX_SUFFIX
from pumas_crds.vocabulary import PIPELINE_INDEX as INDEX
from pumas_server.worker.header_fault import no_model
from pumas_server.worker.onnx.facts import read_onnx_facts
from pumas_server.worker.onnx.files import Files, LocalFiles
from pumas_server.worker.onnx.folder import CONFIG, candidates, locate
from pumas_server.worker.onnx.graph import Graph, read_graph
from pumas_server.worker.remote_file import Unreachable
from pumas_server.worker.remote_folder import RemoteFolder, UrlOf
from pumas_server.worker.source_url import neighbour, source_path, source_url

#: Twenty times the largest known one.
CONFIG_BYTES = 4 << 20


def read_local(path: Path) -> FileFacts:
    """State what the model at `path` is: its folder, or the file that its source names.

    Raises `HeaderFault` and `OSError`.
    """
    path.stat()  # a path that leads nowhere is told as such, not by what would lie beside it
    if _is_pipeline(path):
        return _read_pipeline(LocalFiles(pipeline_root(path)))
    if not path.is_dir():
        _check_name(path.name)
    root, name = locate(path)
    return _read_model(LocalFiles(root), name)


def weights_of(path: Path) -> Path | None:
    """The file that a digest is of; None of a pipeline, which has no such file."""
    if _is_pipeline(path):
        return None
    root, name = locate(path)
    return root / name


def _is_pipeline(path: Path) -> bool:
    return path.name == INDEX or (path / INDEX).is_file()


def _check_name(name: str) -> None:
    if not name.endswith(ONNX_SUFFIX):
        raise no_model(
            f"an ONNX model is named by its folder, by a file whose name ends in {ONNX_SUFFIX},"
            f" or by its {INDEX}"
        )


def pipeline_root(path: Path) -> Path:
    """The folder of a pipeline that is named by itself or by its index."""
    return path.parent if path.name == INDEX else path


def fetch_remote_facts(source: Source, environ: Mapping[str, str]) -> FileFacts:
    """State what a remote model is, and keep nothing. Raises `HeaderFault`, `Unreachable`."""
    root, name = find_root(source, environ)
    files = RemoteFolder(url_below(source, environ, root))
    return _read_pipeline(files) if name == INDEX else _read_model(files, name)


def read_through(files: Files, name: str) -> FileFacts:
    """State what the model is whose weights, or index, are `name` in `files`."""
    return _read_pipeline(files) if name == INDEX else _read_model(files, name)


def find_root(source: Source, environ: Mapping[str, str]) -> tuple[str, str]:
    """Where a remote model's root is on its server, and what its source names below that.

    The root is the folder that has the model's config, quoted as in a URL; the name is not. It is
    the end of the source's own `relative_name`. Raises `Unreachable` and `HeaderFault`.
    """
    path = source_path(source)
    if path is None:
        raise ValueError("a source that is not remote has no root on a server")
    own = source.relative_name()
    if source.file_name() == INDEX:
        return posixpath.dirname(path), INDEX
    _check_name(own)
    for folder, quoted in candidates(path):
        name = unquote(quoted)
        if own != name and not own.endswith(f"/{name}"):
            continue  # a folder whose name no file system takes
        files = RemoteFolder(url_below(source, environ, folder))
        if files.read(CONFIG, CONFIG_BYTES) is not None:
            return folder, name
    raise no_model(f"the model's file {CONFIG} is not there")


def url_below(source: Source, environ: Mapping[str, str], root: str) -> UrlOf:
    """The URLs of the files below a root, which is quoted as in a URL."""

    def url_of(name: str) -> str:
        url = source_url(neighbour(source, posixpath.join(root, quote(name))), environ)
        if url is None:
            raise Unreachable("the source cannot be fetched", passing=False)
        return url

    return url_of


def _read_model(files: Files, name: str) -> FileFacts:
    return read_onnx_facts(files, name).model_copy(update={"format": ONNX})


def _read_pipeline(files: Files) -> FileFacts:
    # Here and not above: half the time that a pod of an encoder takes to look at its files.
    from pumas_server.worker.diffusion.pipeline_folder import GRAPHS, read_pipeline_facts

    facts = read_pipeline_facts(files.read)
    graphs = [_read_graph(files, name) for name in GRAPHS]
    most = max((graph for graph, _ in graphs), key=lambda graph: graph.parameters)
    return facts.model_copy(
        update={
            "format": ONNX,
            "pipeline": facts.architecture,
            "input_modalities": ("text",),
            "parameters": sum(graph.parameters for graph, _ in graphs),
            "quantisation": most.quantisation,
            "size_bytes": sum(size for _, size in graphs),
        }
    )


def _read_graph(files: Files, name: str) -> tuple[Graph, int]:
    """A pipeline's graph, and the bytes of it and of its weights beside it."""
    opened = files.open(name)
    if opened is None:
        raise no_model(f"the file {name} is missing")
    with opened as reader:
        size = reader.size
        graph = read_graph(reader)
    for location in graph.external:
        beside = posixpath.join(posixpath.dirname(name), location)
        opened = files.open(beside)
        if opened is None:
            raise no_model(f"the file {beside} is missing")
        with opened as reader:
            size += reader.size
    return graph, size
