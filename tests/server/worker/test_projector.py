"""What a projector's header means, and which model it can belong to."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumas_crds.facts import FileFacts, ProjectorFacts
from pumas_crds.vocabulary import Reason
from pumas_server.worker.gguf_header import read_header
from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.projector import check_fit, projector_facts
from support.crafted_gguf import BOOL, U32, Row, gguf_file, scalar, text

CLIP = text("general.architecture", "clip")
SEES = scalar("clip.has_vision_encoder", BOOL, True)
HEARS = scalar("clip.has_audio_encoder", BOOL, True)
BLIND = scalar("clip.has_vision_encoder", BOOL, False)
SOME = (Row("v.patch_embd.weight", (8, 4)),)


def facts(*metadata: bytes, rows: tuple[Row, ...] = SOME) -> ProjectorFacts:
    # The first has 32 numbers of four bytes; the next lies behind it.
    placed = [Row(row.name, row.shape, row.type_id, 128 * i) for i, row in enumerate(rows)]
    raw = gguf_file(metadata, placed, data=65_536)
    return projector_facts(read_header(raw, len(raw)), len(raw))


@pytest.mark.parametrize(
    ("metadata", "senses"),
    [
        ((SEES,), ("image",)),
        ((HEARS,), ("audio",)),
        ((SEES, HEARS), ("image", "audio")),
        ((HEARS, SEES), ("image", "audio")),
        ((BLIND, HEARS), ("audio",)),
    ],
)
def test_its_senses(metadata: tuple[bytes, ...], senses: tuple[str, ...]) -> None:
    assert facts(CLIP, *metadata).input_modalities == senses


@pytest.mark.parametrize(
    ("name", "shape", "width"),
    [
        ("mm.input_projection.weight", (64, 32), 64),
        ("mm.2.bias", (48,), 48),
        ("mm.model.fc.weight", (32, 56), 56),
        ("mm.a.mlp.2.weight", (32, 72), 72),
        # As is that of any name that comes one day: the engine compares.
        ("mm.something.new", (32, 56), 0),
        # Of another shape than it should be: the engine will say so.
        ("mm.model.fc.weight", (32,), 0),
    ],
)
def test_its_width(name: str, shape: tuple[int, ...], width: int) -> None:
    assert facts(CLIP, SEES, rows=(*SOME, Row(name, shape))).width == width


def test_the_tiny_one_is_read(tiny_models: Path) -> None:
    for name, width in (("tiny-projector", 64), ("tiny-projector-wide", 128)):
        raw = (tiny_models / f"{name}.gguf").read_bytes()
        assert projector_facts(read_header(raw, len(raw)), len(raw)) == ProjectorFacts(
            input_modalities=("image", "audio"), size_bytes=len(raw), width=width
        )


@pytest.mark.parametrize(
    ("metadata", "rows", "words"),
    [
        ((text("general.architecture", "llama"), SEES), SOME, "its general.architecture is llama"),
        ((SEES,), SOME, "its general.architecture is not stated"),
        ((scalar("general.architecture", U32, 7), SEES), SOME, "is not stated"),
        ((text("general.architecture", "a\x1b[31m\n"), SEES), SOME, "is no projector"),
        ((CLIP,), SOME, "neither a vision nor an audio encoder"),
        ((CLIP, BLIND), SOME, "neither a vision nor an audio encoder"),
        ((CLIP, scalar("clip.has_vision_encoder", U32, 1)), SOME, "neither a vision"),
        ((CLIP, SEES), (), "holds no weights"),
    ],
)
def test_what_is_no_projector(
    metadata: tuple[bytes, ...], rows: tuple[Row, ...], words: str
) -> None:
    with pytest.raises(HeaderFault) as caught:
        facts(*metadata, rows=rows)
    assert caught.value.reason is Reason.NOT_A_MODEL
    assert words in caught.value.message
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    ("model", "projector", "fits"),
    [(64, 64, True), (64, 128, False), (0, 128, True), (64, 0, True), (0, 0, True)],
)
def test_the_widths_have_to_be_one_where_both_are_told(
    model: int, projector: int, fits: bool
) -> None:
    file = FileFacts(architecture="llama", embedding_width=model)
    if fits:
        return check_fit(file, ProjectorFacts(width=projector))
    with pytest.raises(HeaderFault) as caught:
        check_fit(file, ProjectorFacts(width=projector))
    assert caught.value.reason is Reason.PROJECTOR_MISMATCH
    assert caught.value.message == ("the projector gives vectors of 128 values, the model takes 64")
    return None
