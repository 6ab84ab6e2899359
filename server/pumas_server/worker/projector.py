"""What a projector's header means: which senses it gives a model, and whether it fits. Pure.

A projector turns images and sound into vectors of the model's own width. The engine compares the
widths when it has loaded both, which is after an accelerator was asked for; where the header tells
the width, it is compared here.
"""

from __future__ import annotations

from pumas_crds.facts import FileFacts, ProjectorFacts
from pumas_crds.vocabulary import Reason
from pumas_server.worker.gguf_header import GgufHeader
from pumas_server.worker.header_fault import HeaderFault, no_model
from pumas_server.worker.legible import legible

#: What the engine's own loader knows a projector by.
ARCHITECTURE = "clip"
_SENSES = (("clip.has_vision_encoder", "image"), ("clip.has_audio_encoder", "audio"))

#: Tensors that give a projector's vectors, and which of their dimensions is the width, counted in
#: the order of the file. One that is called otherwise is left to the engine to compare.
_LAST_TENSORS = (
    ("mm.input_projection.weight", 0),
    ("mm.2.bias", 0),
    ("mm.model.fc.weight", 1),
    ("mm.a.mlp.2.weight", 1),
)


def projector_facts(header: GgufHeader, size: int) -> ProjectorFacts:
    """State what a file of `size` bytes with this header is. Raises `HeaderFault`."""
    metadata = header.metadata
    architecture = metadata.get("general.architecture")
    if architecture != ARCHITECTURE:
        shown = legible(architecture, 40) if isinstance(architecture, str) else "not stated"
        raise no_model(f"the file is no projector: its general.architecture is {shown}")
    senses = tuple(word for key, word in _SENSES if metadata.get(key) is True)
    if not senses:
        raise no_model("the projector has neither a vision nor an audio encoder")
    if not header.tensors:
        raise no_model("the file holds no weights")
    return ProjectorFacts(input_modalities=senses, size_bytes=size, width=_width(header))


def check_fit(file: FileFacts, projector: ProjectorFacts) -> None:
    """Raise `HeaderFault` (`PROJECTOR_MISMATCH`) unless the projector can belong to the model."""
    width = file.embedding_width
    if projector.width and width and projector.width != width:
        raise HeaderFault(
            Reason.PROJECTOR_MISMATCH,
            f"the projector gives vectors of {projector.width} values, the model takes {width}",
        )


def _width(header: GgufHeader) -> int:
    shapes = {tensor.name: tensor.shape for tensor in header.tensors}
    for name, dimension in _LAST_TENSORS:
        shape = shapes.get(name, ())
        if len(shape) > dimension:
            return shape[dimension]
    return 0
