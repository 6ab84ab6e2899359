"""A word that is no task is told so shortly: it, what may have been meant, some that there are."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from pumas_crds.recorded_task import EXAMPLES, describe_no_task
from pumas_crds.served_model import ServedModel
from pumas_crds.vocabulary import Task


def model(task: object) -> ServedModel:
    spec = {"source": {"path": "model.gguf"}, "task": task}
    return ServedModel.model_validate({"metadata": {"name": "m"}, "spec": spec})


@pytest.mark.parametrize("task", Task)
def test_every_task_is_read(task: Task) -> None:
    assert model(task.value).spec.task is task


def test_none_is_recorded_by_default() -> None:
    assert model(None).spec.task is None


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("text-generaton", "did you mean text-generation or text2text-generation?"),
        ("text_ranking", "did you mean text-ranking"),
        ("Feature Extraction", "did you mean feature-extraction"),
    ],
)
def test_what_may_have_been_meant_is_named(word: str, meant: str) -> None:
    assert describe_no_task(word).startswith(f'"{word}" is no task; {meant}')


@pytest.mark.parametrize(
    ("value", "shown"),
    [("qqq", '"qqq"'), ("", '""'), (5, "5"), (True, "true"), ("ä\n", '"ä\\n"'), ([1], "[1]")],
)
def test_the_value_stands_first_and_some_tasks_follow(value: object, shown: str) -> None:
    told = describe_no_task(value)
    assert told.startswith(f"{shown} is no task. A task is one of the hub's {len(Task)} ")
    assert told.endswith(", ".join(EXAMPLES))


def test_a_long_word_is_cut() -> None:
    assert len(describe_no_task("text-" * 100_000)) < 400


def test_the_refusal_of_a_model_says_it() -> None:
    with pytest.raises(ValidationError) as refusal:
        model("text-generaton")
    [fault] = refusal.value.errors()
    assert fault["loc"] == ("spec", "task")
    assert fault["msg"] == f"Value error, {describe_no_task('text-generaton')}"
