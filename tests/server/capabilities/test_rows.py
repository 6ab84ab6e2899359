"""The table of capabilities against the document's (*Endpoints*) and the fixed order."""

from __future__ import annotations

from pumas_server.capabilities.rows import ROW_OF, ROWS
from pumas_server.contract.request import UNREAD_OPTIONS, Capability

#: Capability, semantic task, input formats, output formats, options.
TABLE = [
    ("chat_generation", "chat_generation", "messages_text", "text", "text_generation"),
    ("text_generation", "text_generation", "text", "text", "text_generation"),
    ("text_embedding", "text_embedding", "text text_batch", "embeddings_float32", "embeddings"),
    ("image_generation", "text_to_image", "text", "png_base64", "image_generation"),
    ("audio_transcription", "speech_to_text", "pcm_s16le pcm_f32le", "text", "audio_transcription"),
    ("audio_classification", "audio_classification", "pcm_s16le pcm_f32le", "labels", "audio_transcription"),
    ("image_to_text", "image_to_text", "png_base64 jpeg_base64 messages_image", "text", "text_generation"),
    ("multimodal_embedding", "multimodal_embedding", "png_base64 jpeg_base64 content_batch", "embeddings_float32", "embeddings"),
    ("decision", "decision", "decision", "decisions", "decision"),
    ("rerank", "rerank", "rerank", "relevance_scores", "rerank"),
]  # fmt: skip


def test_the_rows_are_the_documents_in_its_order() -> None:
    assert [
        (
            row.capability.value,
            row.semantic_task.value,
            " ".join(row.input_formats),
            " ".join(row.output_formats),
            row.options,
        )
        for row in ROWS
    ] == TABLE


def test_every_capability_has_its_row() -> None:
    assert [row.capability for row in ROWS] == list(Capability)
    assert list(ROW_OF) == list(Capability)


def test_only_text_generation_streams_and_has_an_adapter() -> None:
    text = {Capability.CHAT_GENERATION, Capability.TEXT_GENERATION}
    assert {row.capability for row in ROWS if row.adapter} == text
    assert {row.capability for row in ROWS if row.streams} == text


def test_the_options_of_a_row_are_of_a_kind_that_the_grammar_knows() -> None:
    assert {row.options for row in ROWS} == UNREAD_OPTIONS | {"text_generation"}


def test_chat_takes_a_text_beside_what_it_advertises() -> None:
    accepted = {c: [r.capability for r in ROWS if r.accepts(c)] for c in ("text", "messages_text")}
    assert accepted == {
        "text": ["chat_generation", "text_generation", "text_embedding", "image_generation"],
        "messages_text": ["chat_generation"],
    }
