"""Further flags of the engine: an allow-list, and nothing that could name a file or an address."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from pumas_crds.engine import Engine


@pytest.mark.parametrize(
    "argument",
    [
        "--rope-scaling=yarn",
        "--rope-freq-base=1e6",
        "--yarn-ext-factor=-1.0",
        "--swa-full",
        "--no-kv-offload",
        "--split-mode=row",
        "--main-gpu=1",
        "--tensor-split=3,1",
        "--reasoning-format=deepseek-legacy",
        "--cache-reuse=256",
    ],
)
def test_what_is_taken(argument: str) -> None:
    assert Engine.model_validate({"extraArgs": [argument]}).extra_args == (argument,)


@pytest.mark.parametrize(
    "argument",
    [
        "",
        "swa-full",
        "-ngl",
        "--host=0.0.0.0",
        "--port=1",
        "--model=x",
        "-m=x",
        "--api-key=x",
        "--api-key-file=x",
        "--slot-save-path=x",
        "--rope-scaling",
        "--rope-scaling yarn",
        "--rope-=1",
        "--rope-x=/etc/passwd",
        "--swa-full=1",
        "--split-mode=row --port=1",
        "--split-mode=",
        "--main-gpu=1\n",
        "--swa-full\n",
        "--tensor-split=3/1",
        "--cache-reuse=$(x)",
        "--rope-scale=" + "1" * 128,
    ],
)
def test_what_is_refused(argument: str) -> None:
    with pytest.raises(ValidationError, match="extraArgs"):
        Engine.model_validate({"extraArgs": [argument]})


def test_unset_is_not_empty_so_that_a_profiles_list_can_be_replaced_by_none() -> None:
    assert Engine().extra_args is None
    assert Engine.model_validate({"extraArgs": []}).model_dump(exclude_none=True) == {
        "extra_args": ()
    }


def test_sixteen_at_the_most() -> None:
    with pytest.raises(ValidationError, match="at most 16"):
        Engine.model_validate({"extraArgs": ["--swa-full"] * 17})
