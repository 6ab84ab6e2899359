"""Which files make an ONNX model, and what they say: a folder as hubs publish them.

The weights are `model.onnx`, or lie in a folder `onnx` below the others; the root is the folder
that has `config.json`. Everything is read through `Files`, so that a model on a server is read as
one on a disk is. A file that is needed and not there is refused by its own name.

A folder with a `model_index.json` is a pipeline of several models and none of these.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from pathlib import Path

from pumas_crds.vocabulary import Reason
from pumas_server.worker.header_fault import HeaderFault, no_model
from pumas_server.worker.onnx.description import (
    Description,
    as_object,
    count,
    member,
    read_description,
)
from pumas_server.worker.onnx.files import Files, too_large
from pumas_server.worker.onnx.graph import Graph, read_graph
from pumas_server.worker.onnx.image_recipe import ImageRecipe, read_image_recipe
from pumas_server.worker.onnx.kind import Kind, select_kind
from pumas_server.worker.onnx.recipe import UNSAID, Pooling, read_modules, read_pooling
from pumas_server.worker.onnx.tensor import is_plain_name

CONFIG = "config.json"
TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
MODULES = "modules.json"
PREPROCESSOR = "preprocessor_config.json"
LAYER_NORM_WEIGHTS = "model.safetensors"
SUFFIX = ".onnx"
USUAL = ("model.onnx", "onnx/model.onnx", "text_model.onnx", "onnx/text_model.onnx")

#: Twice the largest known one, which has half a million pieces.
TOKENIZER_BYTES_LIMIT = 64 << 20
#: Where the tokenizer's family stands: after the added tokens, before the vocabulary.
TOKENIZER_BYTES_READ = 4 << 20
_FAMILY = re.compile(rb'"model"\s*:\s*\{\s*"type"\s*:\s*"(\w{1,64})"')
_PAIR = re.compile(r"(text|vision)(_model[^/]*\.onnx)")


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """What the files of a model say, and which they are."""

    kind: Kind
    weights: str
    """The file with the graph for texts, relative to the root."""
    image_weights: str
    """The file with the graph for images, which may be the same."""
    graph: Graph
    image_graph: Graph
    config: Description
    tokenizer: str
    """The tokenizer's family; empty when its file does not say."""
    context_tokens: int
    """Tokens of one input, special ones included; 0 when the files do not say."""
    padding: int
    """The token that fills a batch, as far as the config says."""
    pooling: Pooling | None
    """None when the files do not say."""
    layer_norm: str | None
    """The file with the weights of a normalisation after the pooling."""
    image: ImageRecipe | None
    parts: dict[str, int] = field(default_factory=dict)
    """All files of the model, by name relative to the root, and how many bytes each has."""


def candidates(path: str) -> tuple[tuple[str, str], ...]:
    """Roots that a weights file at `path` may belong to, likelier first, and its name below each.

    Which of them it is, is told by `config.json`.
    """
    folder, name = posixpath.split(path)
    above, inner = posixpath.split(folder)
    return ((folder, name), (above, f"{inner}/{name}")) if inner else ((folder, name),)


def locate(path: Path) -> tuple[Path, str]:
    """Root and name of the weights of a model on this machine.

    `path` is the model's folder, or the weights themselves. Raises `HeaderFault`, `OSError`.
    """
    if path.is_dir():
        found = next((name for name in USUAL if (path / name).is_file()), None)
        if found is None:
            raise no_model(f"the model's folder has none of {', '.join(USUAL)}")
        return path, found
    for root, name in candidates(path.absolute().as_posix()):
        if (Path(root) / CONFIG).is_file():
            return Path(root), name
    raise _missing(CONFIG)


def read_model_folder(files: Files, name: str) -> ModelFolder:
    """Read all that the files of a model say. Raises `HeaderFault`, and what `files` raises."""
    if not is_plain_name(name) or not name.endswith(SUFFIX):
        raise no_model(f"the weights of an ONNX model are a file whose name ends in {SUFFIX}")
    reading = _Reading(files)
    partner = _partner(name)
    texts, images = name, partner or name
    if posixpath.basename(name).startswith("vision"):
        texts, images = images, texts
    config = as_object(reading.needed(CONFIG), CONFIG)
    graph = reading.graph(texts)
    image_graph = reading.graph(images) if images != texts else graph
    kind = select_kind(config, graph, image_graph)
    pooling = layer_norm = image = None
    if kind is Kind.EMBEDDER:
        pooling, layer_norm = reading.recipe()
    if kind is Kind.SHARED_SPACE:
        image = read_image_recipe(as_object(reading.needed(PREPROCESSOR), PREPROCESSOR))
    return ModelFolder(
        kind=kind,
        weights=texts,
        image_weights=images,
        graph=graph,
        image_graph=image_graph,
        config=config,
        tokenizer=reading.tokenizer(),
        context_tokens=_context(_texts(config), reading.said(TOKENIZER_CONFIG)),
        padding=count(_texts(config).get("pad_token_id")),
        pooling=pooling,
        layer_norm=layer_norm,
        image=image,
        parts=reading.parts,
    )


class _Reading:
    """Reads files and keeps which they were."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.parts: dict[str, int] = {}

    def said(self, name: str) -> object:
        """The JSON of a file; None when it is not there."""
        found = read_description(self._files, name)
        if found is None:
            return None
        value, self.parts[name] = found
        return value

    def needed(self, name: str) -> object:
        """The JSON of a file that has to be there."""
        found = self.said(name)
        if found is None:
            raise _missing(name)
        return found

    def graph(self, name: str) -> Graph:
        """The graph of a weights file whose further files are all there, and long enough."""
        opened = self._files.open(name)
        if opened is None:
            raise _missing(name)
        with opened as reader:
            self.parts[name] = reader.size
            try:
                graph = read_graph(reader)
            except HeaderFault as fault:
                own = posixpath.basename(name)
                raise HeaderFault(fault.reason, f"{own}: {fault.message}") from None
        for location, end in graph.external.items():
            further = posixpath.join(posixpath.dirname(name), location)
            size = self._size(further)
            if size < end:
                raise HeaderFault(
                    Reason.TRUNCATED,
                    f"the model's {location} has {size} bytes, but its tensors need {end}",
                )
        return graph

    def recipe(self) -> tuple[Pooling | None, str | None]:
        """Pooling, and the weights of a normalisation after it."""
        said = self.said(MODULES)
        modules = UNSAID if said is None else read_modules(said)
        pooling = layer_norm = None
        if modules.pooling is not None:
            name = f"{modules.pooling}/{CONFIG}"
            config = self.said(name) if said is None else self.needed(name)
            pooling = None if config is None else read_pooling(as_object(config, name))
        if modules.layer_norm is not None:
            layer_norm = f"{modules.layer_norm}/{LAYER_NORM_WEIGHTS}"
            self._size(layer_norm)
        return pooling, layer_norm

    def tokenizer(self) -> str:
        """The tokenizer's family, from the beginning of its file."""
        opened = self._files.open(TOKENIZER)
        if opened is None:
            raise _missing(TOKENIZER)
        with opened as reader:
            if reader.size > TOKENIZER_BYTES_LIMIT:
                raise too_large(TOKENIZER, reader.size, TOKENIZER_BYTES_LIMIT)
            self.parts[TOKENIZER] = reader.size
            found = _FAMILY.search(reader.take(min(reader.size, TOKENIZER_BYTES_READ)))
        return found[1].decode("ascii", "replace") if found else ""

    def _size(self, name: str) -> int:
        opened = self._files.open(name)
        if opened is None:
            raise _missing(posixpath.basename(name))
        with opened as reader:
            self.parts[name] = reader.size
            return reader.size


def _missing(name: str) -> HeaderFault:
    return no_model(f"the model's file {name} is not there")


def _partner(name: str) -> str | None:
    """The other half of a model whose two sides are files of their own."""
    folder, own = posixpath.split(name)
    halves = _PAIR.fullmatch(own)
    if halves is None:
        return None
    other = "vision" if halves[1] == "text" else "text"
    return posixpath.join(folder, other + halves[2])


def _texts(config: Description) -> Description:
    """What a config says of texts: a part of its own where there are images too."""
    side = member(config, "text_config")
    return side if isinstance(side, dict) else config


def _context(texts: Description, tokenizer_config: object) -> int:
    """Tokens of one input.

    Some models number positions from after the padding token, and have that many fewer; the limit
    in their tokenizer's config then says so.
    """
    positions = count(texts.get("max_position_embeddings")) or count(texts.get("n_positions"))
    limit = count(member(tokenizer_config, "model_max_length"))
    first = count(texts.get("pad_token_id")) + 1
    if limit and (not positions or 0 < positions - limit <= first):
        return limit
    return positions
