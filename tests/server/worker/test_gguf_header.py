"""The header reader: agrees with the format's own package, and survives what strangers write."""

from __future__ import annotations

import mmap
import struct
import time
import tracemalloc
from pathlib import Path

import gguf
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pumas_crds.vocabulary import Reason
from pumas_server.worker.ggml_types import TENSOR_TYPES
from pumas_server.worker.gguf_cursor import LongText
from pumas_server.worker.gguf_header import Array, GgufHeader, read_header
from pumas_server.worker.header_fault import HeaderFault
from support import crafted_gguf as craft
from support.crafted_gguf import Row, gguf_file

TINY = ("tiny-chat", "tiny-embed", "tiny-rerank", "tiny-decision")
SMALL = gguf_file(
    [
        *craft.MODEL,
        craft.scalar("tiny.context_length", craft.U32, 4096),
        craft.scalar("tiny.scale", craft.F32, 0.5),
        craft.strings("tokenizer.ggml.tokens", ["a", "bc", ""]),
        craft.entry("tiny.sizes", craft.ARRAY, struct.pack("<IQ3i", craft.I32, 3, 1, 2, 3)),
    ],
    [Row("a.weight", (8, 4)), Row("b.weight", (32, 2), type_id=8, offset=128)],
    data=128 + 68,
)


def read(data: bytes) -> GgufHeader:
    return read_header(data, len(data))


def fault_of(data: bytes) -> HeaderFault:
    with pytest.raises(HeaderFault) as caught:
        read(data)
    return caught.value


@pytest.mark.parametrize("name", TINY)
def test_agrees_with_the_reader_of_the_gguf_package(tiny_models: Path, name: str) -> None:
    path = tiny_models / f"{name}.gguf"
    header = read(path.read_bytes())
    reference = gguf.GGUFReader(path)
    fields = {k: f for k, f in reference.fields.items() if not k.startswith("GGUF.")}
    assert header.metadata.keys() == fields.keys()
    for key, field in fields.items():
        match header.metadata[key]:
            case Array(length):
                assert length == len(field.data), key
            case LongText(size):
                assert size == len(field.contents().encode()), key
            case value:
                assert value == field.contents(), key
    assert [(t.name, t.shape, t.type_id, t.elements) for t in header.tensors] == [
        (t.name, tuple(t.shape.tolist()), int(t.tensor_type), t.n_elements)
        for t in reference.tensors
    ]
    assert header.data_offset == reference.data_offset
    last = reference.tensors[-1]
    assert header.data_end == last.data_offset + last.n_bytes


def test_the_type_table_agrees_with_the_gguf_package() -> None:
    for kind, sizes in gguf.GGML_QUANT_SIZES.items():
        known = TENSOR_TYPES[int(kind)]
        assert (known.name, known.block, known.block_bytes) == (kind.name, *sizes)


def test_reads_a_mapped_file_and_lets_go_of_it(tiny_models: Path) -> None:
    with (tiny_models / "tiny-chat.gguf").open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        read_header(data, len(data))
        with pytest.raises(HeaderFault):
            read_header(data, len(data) - 1)
        data.close()  # BufferError while a view of it lived


def test_long_texts_and_arrays_are_known_by_their_length() -> None:
    header = read(gguf_file([craft.text("tokenizer.chat_template", "x" * 5000)]))
    assert header.metadata["tokenizer.chat_template"] == LongText(5000)
    assert read(SMALL).metadata["tokenizer.ggml.tokens"] == Array(3)
    assert read(SMALL).metadata["tiny.sizes"] == Array(3)


def test_version_2_is_read() -> None:
    assert read(gguf_file(version=b"\x02\0\0\0")).version == 2


def test_every_truncation_of_a_small_file_is_truncated() -> None:
    read(SMALL)
    for size in range(len(SMALL)):
        assert fault_of(SMALL[:size]).reason is Reason.TRUNCATED, size


def test_a_cut_off_file_is_told_both_sizes() -> None:
    fault = fault_of(SMALL[:-1])
    assert fault.message == (
        f"the file has {len(SMALL) - 1} bytes, but its tensors need {len(SMALL)}"
    )


def test_the_data_may_be_the_beginning_of_the_file_alone() -> None:
    header = read(SMALL)
    assert read_header(SMALL[: header.data_offset], len(SMALL)) == header


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"Some text, which is no model.", "does not begin"),
        (gguf_file(version=b"\0\0\0\x03"), "big-endian"),
        (gguf_file(version=b"\x01\0\0\0"), "version 1"),
        (gguf_file(version=b"\x04\0\0\0"), "version 4"),
        (gguf_file(version=b"\0\0\0\0"), "version 0"),
        (gguf_file([craft.text("a", ""), craft.text("a", "")]), "a occurs twice"),
        (gguf_file([craft.text("", "")]), "no name"),
        (gguf_file([craft.text("k" * 1025, "")]), "1025 bytes"),
        (gguf_file([craft.text("a\nb", "")]), "not printable"),
        (gguf_file([craft.text(b"\xff", "")]), "not UTF-8"),
        (gguf_file([craft.entry("a", 13, b"")]), "unknown type 13"),
        (gguf_file([craft.entry("a", craft.STRING, craft.string("", claim=1 << 31))]), "limit"),
        (gguf_file([craft.strings("a", [], claim=1 << 31)]), "limit"),
        (gguf_file([craft.strings("a", [], claim=9 << 20)]), "strings"),
        (
            gguf_file([craft.entry("a", craft.ARRAY, struct.pack("<IQIQ", craft.ARRAY, 1, 0, 0))]),
            "array of the unknown type 9",
        ),
        (gguf_file([craft.scalar("general.alignment", craft.U32, 0)]), "power of two"),
        (gguf_file([craft.scalar("general.alignment", craft.U32, 48)]), "power of two"),
        (gguf_file([craft.scalar("general.alignment", craft.BOOL, True)]), "power of two"),
        (gguf_file([craft.text("general.alignment", "32")]), "power of two"),
        (gguf_file(rows=[Row(), Row(offset=128)], data=256), "a.weight occurs twice"),
        (gguf_file(rows=[Row("n" * 64)], data=128), "64 bytes"),
        (gguf_file(rows=[Row(b"cls\0x")], data=128), "not printable"),
        (gguf_file(rows=[Row(shape=(1, 1, 1, 1, 1))], data=4), "5 dimensions"),
        (gguf_file(rows=[Row(shape=(0, 4))]), "impossible shape"),
        (gguf_file(rows=[Row(shape=(33,), type_id=8)], data=128), "blocks of 32"),
        (gguf_file(rows=[Row(offset=32)], data=160), "offset 32, not at 0"),
        (gguf_file(rows=[Row(), Row("b", offset=160)], data=320), "offset 160, not at 128"),
        (gguf_file(rows=[Row(), Row("b", offset=0)], data=320), "offset 0, not at 128"),
    ],
)
def test_what_breaks_the_rules_is_no_model(data: bytes, words: str) -> None:
    fault = fault_of(data)
    assert fault.reason is Reason.NOT_A_MODEL
    assert words in fault.message


@pytest.mark.parametrize(
    "shape",
    [
        (1 << 32, 1 << 32),
        (1 << 63, 2),
        (1 << 62, 4),
        (1 << 16, 1 << 16, 1 << 16, 1 << 16),
        ((1 << 64) - 1, (1 << 64) - 1),
        (1 << 63,),
    ],
)
def test_shapes_that_wrap_in_64_bits_are_refused(shape: tuple[int, ...]) -> None:
    fault = fault_of(gguf_file(rows=[Row(shape=shape)], data=128))
    assert fault.reason is Reason.NOT_A_MODEL
    assert "impossible shape" in fault.message


def test_sizes_that_wrap_in_64_bits_are_truncated_files() -> None:
    huge = Row(shape=(1 << 62,))
    assert fault_of(gguf_file(rows=[huge], data=128)).reason is Reason.TRUNCATED


def test_weights_that_cannot_be_counted_are_refused() -> None:
    rows = [Row(str(n), (1 << 62,), type_id=9999) for n in range(3)]
    assert "more than can be counted" in fault_of(gguf_file(rows=rows)).message


def test_of_an_unknown_type_the_offset_alone_is_checked() -> None:
    new = Row("new", (7,), type_id=9999)
    header = read(gguf_file(rows=[new, Row("b", offset=64)], data=192))
    assert [tensor.offset for tensor in header.tensors] == [0, 64]
    misplaced = gguf_file(rows=[new, Row("b", offset=65)], data=256)
    assert fault_of(misplaced).reason is Reason.NOT_A_MODEL
    outside = gguf_file(rows=[Row(), Row("new", (7,), type_id=9999, offset=128)], data=127)
    assert fault_of(outside).reason is Reason.TRUNCATED


def test_an_alignment_of_its_own_is_obeyed() -> None:
    metadata = [craft.scalar("general.alignment", craft.U32, 128)]
    rows = [Row(shape=(8,)), Row("b", shape=(8,), offset=128)]
    header = read(gguf_file(metadata, rows, data=160, alignment=128))
    assert header.data_offset % 128 == 0


@pytest.mark.parametrize(
    "data",
    [
        gguf_file(row_count=(1 << 64) - 1),
        gguf_file(row_count=65_536),
        gguf_file(metadata_count=(1 << 64) - 1),
        gguf_file(metadata_count=16_384),
        gguf_file([craft.strings("a", [], claim=(1 << 64) - 1)]),
        gguf_file([craft.strings("a", [], claim=8 << 20)]),
        gguf_file([craft.entry("a", craft.ARRAY, struct.pack("<IQ", craft.U64, 1 << 30))]),
        gguf_file([craft.entry("a", craft.STRING, craft.string("", claim=1 << 30))]),
    ],
)
def test_claims_cost_neither_memory_nor_time(data: bytes) -> None:
    tracemalloc.start()
    try:
        fault_of(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 * 1024


def test_a_vocabulary_of_262144_tokens_is_stepped_over_in_time() -> None:
    data = gguf_file([craft.strings("tokens", ("token",) * 262_144)])
    began = time.perf_counter()
    assert read(data).metadata["tokens"] == Array(262_144)
    assert time.perf_counter() - began < 0.4


@given(st.binary(max_size=400))
def test_random_bytes_raise_header_faults_alone(tail: bytes) -> None:
    for data in (tail, SMALL[:8] + tail, SMALL[:24] + tail):
        _survives(data)


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(st.integers(0, len(SMALL) - 1), st.binary(min_size=1, max_size=9)),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, len(SMALL)),
)
def test_mutations_raise_header_faults_alone(edits: list[tuple[int, bytes]], size: int) -> None:
    data = bytearray(SMALL)
    for at, replacement in edits:
        data[at : at + len(replacement)] = replacement
    _survives(bytes(data))
    _survives(bytes(data[:size]))


def _survives(data: bytes) -> None:
    """Anything that is read lies within the file; anything else is a `HeaderFault`."""
    try:
        header = read(data)
    except HeaderFault as fault:
        assert len(fault.message) < 512
        assert fault.message.isprintable()
    else:
        assert not header.tensors or header.data_end <= len(data)
