"""Chooses what an engine is started for: one pure function of the recorded task and the file.

An engine does one thing (generate, embed, rerank, decide or draw), so this is decided before it
starts. A recorded task beats what the file suggests, except that a file which cannot do the task
is refused. No model and no family of models is named: the evidence is in the header.
"""

from __future__ import annotations

from dataclasses import dataclass

from pumas_crds.facts import FileFacts
from pumas_crds.vocabulary import ONNX, EngineMode, Reason, Task

#: Tasks that an engine does in one mode.
MODE_OF_TASK: dict[Task, EngineMode] = {
    Task.ANY_TO_ANY: EngineMode.GENERATE,
    Task.AUDIO_TEXT_TO_TEXT: EngineMode.GENERATE,
    Task.CONVERSATIONAL: EngineMode.GENERATE,
    Task.IMAGE_TEXT_TO_TEXT: EngineMode.GENERATE,
    Task.IMAGE_TO_TEXT: EngineMode.GENERATE,
    Task.SUMMARIZATION: EngineMode.GENERATE,
    Task.TEXT2TEXT_GENERATION: EngineMode.GENERATE,
    Task.TEXT_GENERATION: EngineMode.GENERATE,
    Task.TRANSLATION: EngineMode.GENERATE,
    Task.VIDEO_TEXT_TO_TEXT: EngineMode.GENERATE,
    Task.VISUAL_QUESTION_ANSWERING: EngineMode.GENERATE,
    Task.FEATURE_EXTRACTION: EngineMode.EMBED,
    Task.SENTENCE_SIMILARITY: EngineMode.EMBED,
    Task.TEXT_RANKING: EngineMode.RERANK,
}

#: The hub has no word for native decision models. They choose among options, so these words of it
#: do not contradict one; without decision metadata no engine here does these tasks.
DECISION_TASKS = frozenset(
    {
        Task.AUDIO_CLASSIFICATION,
        Task.IMAGE_CLASSIFICATION,
        Task.TEXT_CLASSIFICATION,
        Task.ZERO_SHOT_CLASSIFICATION,
        Task.ZERO_SHOT_IMAGE_CLASSIFICATION,
    }
)

#: Poolings that make one vector of a text.
VECTOR_POOLINGS = frozenset({"mean", "cls", "last"})


@dataclass(frozen=True, slots=True)
class ModeChoice:
    """What the engine is to do, and the evidence in one sentence."""

    mode: EngineMode
    why: str


@dataclass(frozen=True, slots=True)
class ModeRefusal:
    """Why this file cannot serve, or not for this task."""

    reason: Reason
    message: str


def engine_mode(task: Task | None, file: FileFacts) -> ModeChoice | ModeRefusal:
    """Choose the engine's mode, or refuse: `TASK_MISMATCH`, `MISSING_RANKING_HEAD`."""
    if file.pipeline is not None:
        return _mode_of_pipeline(task, file.pipeline)
    if file.decision:
        return _mode_of_decision_model(task, file)
    if task is not None:
        return _mode_of_task(task, file)
    return _mode_of_file(file)


def _mode_of_pipeline(task: Task | None, pipeline: str) -> ModeChoice | ModeRefusal:
    if task not in (None, Task.TEXT_TO_IMAGE):
        return ModeRefusal(
            Reason.TASK_MISMATCH,
            f"the task {task} is recorded, but the folder is an image pipeline ({pipeline})",
        )
    return ModeChoice(EngineMode.GENERATE_IMAGE, f"the folder is an image pipeline ({pipeline})")


def _mode_of_decision_model(task: Task | None, file: FileFacts) -> ModeChoice | ModeRefusal:
    if task is not None and task not in DECISION_TASKS:
        return ModeRefusal(
            Reason.TASK_MISMATCH,
            f"the task {task} is recorded, but the file is a native decision model,"
            " which only decides",
        )
    return ModeChoice(EngineMode.DECIDE, f"the file has decision metadata ({file.decision})")


def _mode_of_task(task: Task, file: FileFacts) -> ModeChoice | ModeRefusal:
    mode = MODE_OF_TASK.get(task)
    if mode is None:
        engine = "ONNX Runtime" if file.format == ONNX else "llama.cpp"
        return ModeRefusal(
            Reason.TASK_MISMATCH, f"no {engine} engine does the recorded task {task}"
        )
    if mode is EngineMode.GENERATE and not file.causal:
        return ModeRefusal(
            Reason.TASK_MISMATCH,
            f"the task {task} is recorded, but the file is an encoder, which generates no text",
        )
    why = f"the task {task} is recorded"
    return _with_head(why, file) if mode is EngineMode.RERANK else ModeChoice(mode, why)


def _mode_of_file(file: FileFacts) -> ModeChoice | ModeRefusal:
    if file.pooling == "rank":
        return _with_head("the file's pooling is rank", file)
    if file.ranking_head:
        return ModeChoice(EngineMode.RERANK, "the file has a ranking head")
    if file.pooling in VECTOR_POOLINGS:
        return ModeChoice(EngineMode.EMBED, f"the file's pooling is {file.pooling}")
    if not file.causal:
        return ModeChoice(EngineMode.EMBED, "the file is an encoder (attention is not causal)")
    return ModeChoice(EngineMode.GENERATE, "nothing in the file speaks against generating text")


def _with_head(why: str, file: FileFacts) -> ModeChoice | ModeRefusal:
    if file.ranking_head:
        return ModeChoice(EngineMode.RERANK, f"{why} and the ranking head is there")
    # The engine would answer 200 with scores that mean nothing.
    where = "a classifier of one label" if file.format == ONNX else "tensor cls.output.weight"
    return ModeRefusal(
        Reason.MISSING_RANKING_HEAD, f"{why}, but the file has no ranking head ({where})"
    )
