"""The table of capabilities against the document's (*Endpoints*) and the fixed order."""

from __future__ import annotations

from pumas_server.capabilities.rows import ROW_OF, ROWS
from pumas_server.contract.words import Capability, Format, OptionsKind, Output
from support.documents import INPUTS, OPTIONS, operation

PCM = "pcm_s16le pcm_f32le"
IMAGES = "png_base64 jpeg_base64"

#: Capability, semantic task, input formats, output formats, options, carries, produces.
TABLE = [
    ("chat_generation", "chat_generation", "messages_text", "text", "text_generation",
     "text image audio", "text"),
    ("text_generation", "text_generation", "text", "text", "text_generation", "text", "text"),
    ("text_embedding", "text_embedding", "text text_batch", "embeddings_float32", "embeddings",
     "text", "vector"),
    ("image_generation", "text_to_image", "text", "png_base64", "image_generation",
     "text", "image"),
    ("audio_transcription", "speech_to_text", PCM, "text", "audio_transcription",
     "audio", "text"),
    ("audio_classification", "audio_classification", PCM, "labels", "audio_transcription",
     "audio", "json"),
    ("image_to_text", "image_to_text", IMAGES + " messages_image", "text", "text_generation",
     "text image", "text"),
    ("multimodal_embedding", "multimodal_embedding", IMAGES + " content_batch",
     "embeddings_float32", "embeddings", "text image audio", "vector"),
    ("decision", "decision", "decision", "decisions", "decision", "text image audio", "json"),
    ("rerank", "rerank", "rerank", "relevance_scores", "rerank", "text", "json"),
]  # fmt: skip


def test_the_rows_are_the_documents_in_its_order() -> None:
    assert [
        (
            row.capability.value,
            row.semantic_task.value,
            " ".join(row.input_formats),
            " ".join(row.output_formats),
            row.options,
            " ".join(row.carries),
            " ".join(row.produces),
        )
        for row in ROWS
    ] == TABLE


def test_every_capability_has_its_row() -> None:
    assert [row.capability for row in ROWS] == list(Capability)
    assert list(ROW_OF) == list(Capability)


def test_what_this_release_carries_out() -> None:
    reserved = {Capability.AUDIO_TRANSCRIPTION, Capability.AUDIO_CLASSIFICATION}
    assert {row.capability for row in ROWS if not row.adapter} == reserved
    text = {Capability.CHAT_GENERATION, Capability.TEXT_GENERATION}
    assert {row.capability for row in ROWS if row.streams} == text


def test_what_a_capability_is_nothing_without_it_can_carry() -> None:
    assert {row.capability: row.requires for row in ROWS if row.requires} == {
        Capability.IMAGE_TO_TEXT: ("image",)
    }
    assert all({*row.requires} <= {*row.carries} for row in ROWS)


def test_the_options_of_a_row_are_of_a_kind_that_the_grammar_knows() -> None:
    assert {row.options for row in ROWS} == set(OptionsKind) == set(OPTIONS)


#: Which capabilities may take an input of each format, and which only when they are named.
ACCEPTED = {
    "text": "chat_generation text_generation text_embedding image_generation",
    "text_batch": "text_embedding",
    "messages_text": "chat_generation",
    "messages_image": "image_to_text",
    "messages_audio": "chat_generation",
    "png_base64": "image_to_text multimodal_embedding",
    "jpeg_base64": "image_to_text multimodal_embedding",
    "content_batch": "multimodal_embedding",
    "decision": "decision",
    "rerank": "rerank",
    "pcm_s16le": "audio_transcription audio_classification",
    "pcm_f32le": "audio_transcription audio_classification",
}


def test_who_takes_what() -> None:
    unnamed = {
        format_.value: " ".join(row.capability for row in ROWS if row.accepts(format_, named=False))
        for format_ in Format
    }
    assert unnamed == ACCEPTED
    # An image in a conversation is for image_to_text, unless the request names chat.
    more = {
        format_.value: {row.capability.value for row in ROWS if row.accepts(format_, named=True)}
        - set(ACCEPTED[format_].split())
        for format_ in Format
    }
    assert {format_: names for format_, names in more.items() if names} == {
        "messages_image": {"chat_generation"}
    }


def test_every_input_and_every_output_but_speech_has_a_capability() -> None:
    for wanted in INPUTS.values():
        format_ = operation(input=wanted).input.format()
        assert any(row.accepts(format_, named=False) for row in ROWS)
    given = {output for row in ROWS for output in row.output_formats}
    assert set(Output) - given == {Output.PCM_S16LE, Output.PCM_F32LE}
