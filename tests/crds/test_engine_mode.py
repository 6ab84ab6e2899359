"""The engine's mode, as a table: every task against every kind of file."""

from __future__ import annotations

import pytest

from pumas_crds.engine_mode import ModeChoice, ModeRefusal, engine_mode
from pumas_crds.facts import FileFacts
from pumas_crds.vocabulary import EngineMode, Reason, Task

GENERATE, EMBED = EngineMode.GENERATE, EngineMode.EMBED
RERANK, DECIDE = EngineMode.RERANK, EngineMode.DECIDE
MISMATCH, HEADLESS = Reason.TASK_MISMATCH, Reason.MISSING_RANKING_HEAD

Outcomes = tuple[EngineMode | Reason, ...]


def _file(**facts: object) -> FileFacts:
    return FileFacts.model_validate({"architecture": "tiny", **facts})


DECODER = _file()
UNPOOLED_DECODER = _file(pooling="none")
ODD_DECODER = _file(pooling="unknown")
POOLED_DECODER = _file(pooling="last")
HEADED_DECODER = _file(ranking_head=True)
ENCODER = _file(causal=False)
MEAN_ENCODER = _file(causal=False, pooling="mean")
CLS_ENCODER = _file(causal=False, pooling="cls")
RERANKER = _file(causal=False, pooling="rank", ranking_head=True)
HEADLESS_RERANKER = _file(causal=False, pooling="rank")
DECISION = _file(causal=False, ranking_head=True, decision="some-family")
CAUSAL_DECISION = _file(decision="some-family")

FILES = (
    DECODER,
    UNPOOLED_DECODER,
    ODD_DECODER,
    POOLED_DECODER,
    HEADED_DECODER,
    ENCODER,
    MEAN_ENCODER,
    CLS_ENCODER,
    RERANKER,
    HEADLESS_RERANKER,
    DECISION,
    CAUSAL_DECISION,
)

NO_TASK: Outcomes = (
    GENERATE,
    GENERATE,
    GENERATE,
    EMBED,
    RERANK,
    EMBED,
    EMBED,
    EMBED,
    RERANK,
    HEADLESS,
    DECIDE,
    DECIDE,
)

#: Rows of outcomes, one a file, that several tasks share.
TEXT: Outcomes = (*[GENERATE] * 5, *[MISMATCH] * 7)
VECTORS: Outcomes = (*[EMBED] * 10, MISMATCH, MISMATCH)
RANKING: Outcomes = (
    *[HEADLESS] * 4,
    RERANK,
    *[HEADLESS] * 3,
    RERANK,
    HEADLESS,
    MISMATCH,
    MISMATCH,
)
CHOOSING: Outcomes = (*[MISMATCH] * 10, DECIDE, DECIDE)
NOTHING: Outcomes = (MISMATCH,) * 12

TABLE: dict[Task, Outcomes] = {
    Task.AUDIO_CLASSIFICATION: CHOOSING,
    Task.AUDIO_TEXT_TO_TEXT: TEXT,
    Task.AUDIO_TO_AUDIO: NOTHING,
    Task.ANY_TO_ANY: TEXT,
    Task.AUTOMATIC_SPEECH_RECOGNITION: NOTHING,
    Task.CONVERSATIONAL: TEXT,
    Task.DEPTH_ESTIMATION: NOTHING,
    Task.DOCUMENT_QUESTION_ANSWERING: NOTHING,
    Task.FEATURE_EXTRACTION: VECTORS,
    Task.FILL_MASK: NOTHING,
    Task.IMAGE_CLASSIFICATION: CHOOSING,
    Task.IMAGE_FEATURE_EXTRACTION: NOTHING,
    Task.IMAGE_SEGMENTATION: NOTHING,
    Task.IMAGE_TEXT_TO_TEXT: TEXT,
    Task.IMAGE_TO_IMAGE: NOTHING,
    Task.IMAGE_TO_TEXT: TEXT,
    Task.IMAGE_TO_VIDEO: NOTHING,
    Task.MASK_GENERATION: NOTHING,
    Task.OBJECT_DETECTION: NOTHING,
    Task.QUESTION_ANSWERING: NOTHING,
    Task.SENTENCE_SIMILARITY: VECTORS,
    Task.SUMMARIZATION: TEXT,
    Task.TABLE_QUESTION_ANSWERING: NOTHING,
    Task.TEXT2TEXT_GENERATION: TEXT,
    Task.TEXT_CLASSIFICATION: CHOOSING,
    Task.TEXT_GENERATION: TEXT,
    Task.TEXT_RANKING: RANKING,
    Task.TEXT_TO_AUDIO: NOTHING,
    Task.TEXT_TO_IMAGE: NOTHING,
    Task.TEXT_TO_SPEECH: NOTHING,
    Task.TEXT_TO_VIDEO: NOTHING,
    Task.TIME_SERIES_FORECASTING: NOTHING,
    Task.TOKEN_CLASSIFICATION: NOTHING,
    Task.TRANSLATION: TEXT,
    Task.VIDEO_TEXT_TO_TEXT: TEXT,
    Task.VISUAL_QUESTION_ANSWERING: TEXT,
    Task.ZERO_SHOT_CLASSIFICATION: CHOOSING,
    Task.ZERO_SHOT_IMAGE_CLASSIFICATION: CHOOSING,
}


def outcome(task: Task | None, file: FileFacts) -> EngineMode | Reason:
    match engine_mode(task, file):
        case ModeChoice(mode, why):
            assert 0 < len(why) <= 256
            return mode
        case ModeRefusal(reason, message):
            assert 0 < len(message) <= 512
            return reason


def test_the_table_has_every_task() -> None:
    assert TABLE.keys() == set(Task)


def test_without_a_task_the_file_decides() -> None:
    assert tuple(outcome(None, file) for file in FILES) == NO_TASK


@pytest.mark.parametrize("task", list(Task))
def test_with_a_task(task: Task) -> None:
    assert tuple(outcome(task, file) for file in FILES) == TABLE[task]


@pytest.mark.parametrize(
    ("task", "file", "why"),
    [
        (None, DECODER, "nothing in the file speaks against generating text"),
        (None, RERANKER, "the file's pooling is rank and the ranking head is there"),
        (None, HEADED_DECODER, "the file has a ranking head"),
        (None, MEAN_ENCODER, "the file's pooling is mean"),
        (None, ENCODER, "the file is an encoder (attention is not causal)"),
        (None, DECISION, "the file has decision metadata (some-family)"),
        (Task.TEXT_GENERATION, DECODER, "the task text-generation is recorded"),
    ],
)
def test_why_names_the_evidence(task: Task | None, file: FileFacts, why: str) -> None:
    choice = engine_mode(task, file)
    assert isinstance(choice, ModeChoice)
    assert choice.why == why


@pytest.mark.parametrize(
    ("task", "file", "message"),
    [
        (
            Task.TEXT_TO_IMAGE,
            DECODER,
            "no llama.cpp engine does the recorded task text-to-image",
        ),
        (
            Task.TEXT_RANKING,
            DECODER,
            "the task text-ranking is recorded, but the file has no ranking head"
            " (tensor cls.output.weight)",
        ),
        (
            Task.TEXT_GENERATION,
            ENCODER,
            "the task text-generation is recorded, but the file is an encoder,"
            " which generates no text",
        ),
        (
            Task.TEXT_GENERATION,
            DECISION,
            "the task text-generation is recorded, but the file is a native decision model,"
            " which only decides",
        ),
    ],
)
def test_a_refusal_is_one_sentence(task: Task, file: FileFacts, message: str) -> None:
    refusal = engine_mode(task, file)
    assert isinstance(refusal, ModeRefusal)
    assert refusal.message == message


PIPELINE = _file(format="onnx", pipeline="SomePipeline")


@pytest.mark.parametrize("task", [None, *Task])
def test_a_pipeline_draws_and_does_nothing_else(task: Task | None) -> None:
    draws = task in (None, Task.TEXT_TO_IMAGE)
    assert outcome(task, PIPELINE) == (EngineMode.GENERATE_IMAGE if draws else MISMATCH)
    told = engine_mode(task, PIPELINE)
    sentence = told.why if isinstance(told, ModeChoice) else told.message
    assert "the folder is an image pipeline (SomePipeline)" in sentence


@pytest.mark.parametrize(
    ("format_", "engine", "head"),
    [
        ("onnx", "ONNX Runtime", "a classifier of one label"),
        (None, "llama.cpp", "cls.output.weight"),
    ],
)
def test_a_refusal_speaks_of_the_engine_that_it_would_be(
    format_: str | None, engine: str, head: str
) -> None:
    encoder = _file(causal=False, pooling="mean", format=format_)
    refused = engine_mode(Task.TEXT_TO_IMAGE, encoder)
    assert isinstance(refused, ModeRefusal)
    assert refused.message == f"no {engine} engine does the recorded task text-to-image"
    headless = engine_mode(Task.TEXT_RANKING, encoder)
    assert isinstance(headless, ModeRefusal) and head in headless.message
