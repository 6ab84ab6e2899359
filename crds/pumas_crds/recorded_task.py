"""The recorded task, as people write it, and what is said of a word that is none."""

from __future__ import annotations

import json
from difflib import get_close_matches
from typing import Annotated

from pydantic import ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from pumas_crds.vocabulary import Task

#: One for each thing that engines here do, and one with sight.
EXAMPLES = (
    Task.TEXT_GENERATION,
    Task.IMAGE_TEXT_TO_TEXT,
    Task.FEATURE_EXTRACTION,
    Task.TEXT_RANKING,
    Task.TEXT_CLASSIFICATION,
    Task.TEXT_TO_IMAGE,
)

_SHOWN = 80


def describe_no_task(value: object) -> str:
    """Why a value is no task: the value, what may have been meant, some that there are.

    Without a full stop.
    """
    near = _nearest(value) if isinstance(value, str) else []
    meant = f"; did you mean {' or '.join(near)}?" if near else "."
    tags = f"one of the hub's {len(Task)} pipeline tags, such as {', '.join(EXAMPLES)}"
    return f"{_show(value)} is no task{meant} A task is {tags}"


def _nearest(word: str) -> list[str]:
    # No more of it than a task may have: comparing takes the square of its length.
    written = word[:_SHOWN].strip().lower().replace("_", "-").replace(" ", "-")
    return get_close_matches(written, [task.value for task in Task], n=2)


def _show(value: object) -> str:
    shown = json.dumps(value, ensure_ascii=False, default=repr)
    return shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"


def _read(value: object, handler: ValidatorFunctionWrapHandler) -> Task:
    try:
        task: Task = handler(value)
    except ValidationError:
        raise ValueError(describe_no_task(value)) from None
    return task


RecordedTask = Annotated[Task, WrapValidator(_read)]
