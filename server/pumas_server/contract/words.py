"""The closed vocabularies of contract v1."""

from __future__ import annotations

from enum import StrEnum


class Capability(StrEnum):
    """The capabilities of contract v1, in the order descriptors are listed."""

    CHAT_GENERATION = "chat_generation"
    TEXT_GENERATION = "text_generation"
    TEXT_EMBEDDING = "text_embedding"
    IMAGE_GENERATION = "image_generation"
    AUDIO_TRANSCRIPTION = "audio_transcription"
    AUDIO_CLASSIFICATION = "audio_classification"
    IMAGE_TO_TEXT = "image_to_text"
    MULTIMODAL_EMBEDDING = "multimodal_embedding"
    DECISION = "decision"
    RERANK = "rerank"


class SemanticTask(StrEnum):
    """What a capability means, independent of its protocol."""

    CHAT_GENERATION = "chat_generation"
    TEXT_GENERATION = "text_generation"
    TEXT_EMBEDDING = "text_embedding"
    TEXT_TO_IMAGE = "text_to_image"
    SPEECH_TO_TEXT = "speech_to_text"
    AUDIO_CLASSIFICATION = "audio_classification"
    IMAGE_TO_TEXT = "image_to_text"
    MULTIMODAL_EMBEDDING = "multimodal_embedding"
    DECISION = "decision"
    RERANK = "rerank"


class Output(StrEnum):
    """What a request asks to get."""

    TEXT = "text"
    EMBEDDINGS_FLOAT32 = "embeddings_float32"
    PNG_BASE64 = "png_base64"
    DECISIONS = "decisions"
    RELEVANCE_SCORES = "relevance_scores"
    LABELS = "labels"
    PCM_S16LE = "pcm_s16le"
    PCM_F32LE = "pcm_f32le"


class OptionsKind(StrEnum):
    """The tags of options."""

    TEXT_GENERATION = "text_generation"
    EMBEDDINGS = "embeddings"
    IMAGE_GENERATION = "image_generation"
    DECISION = "decision"
    RERANK = "rerank"
    AUDIO_TRANSCRIPTION = "audio_transcription"


class Format(StrEnum):
    """What an input is once its kind and content are known; `input_formats` of descriptors."""

    TEXT = "text"
    TEXT_BATCH = "text_batch"
    MESSAGES_TEXT = "messages_text"
    MESSAGES_IMAGE = "messages_image"
    MESSAGES_AUDIO = "messages_audio"
    PNG_BASE64 = "png_base64"
    JPEG_BASE64 = "jpeg_base64"
    CONTENT_BATCH = "content_batch"
    DECISION = "decision"
    RERANK = "rerank"
    PCM_S16LE = "pcm_s16le"
    PCM_F32LE = "pcm_f32le"
