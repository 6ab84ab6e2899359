"""What ends on its own accord, or because nobody wants it any more, is no fault; the rest is ours."""

from __future__ import annotations

import asyncio

import pytest

from pumas_crds.vocabulary import Reason
from pumas_local.task_end import explain_end


async def well() -> None:
    pass


async def badly() -> None:
    raise KeyError("a secret")


@pytest.mark.parametrize("cancelled", [False, True])
async def test_an_end_that_is_no_fault(cancelled: bool, caplog: pytest.LogCaptureFixture) -> None:
    task = asyncio.create_task(well())
    if cancelled:
        task.cancel()
    await asyncio.wait([task])
    assert explain_end(task, "pod") is None
    assert not caplog.records


async def test_a_fault_is_logged_and_told_without_its_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = asyncio.create_task(badly())
    await asyncio.wait([task])
    fault = explain_end(task, "model")
    assert fault is not None
    assert fault.reason is Reason.ENGINE_FAILED
    assert fault.message == "The model is no longer looked after, because of an internal error."
    (record,) = caplog.records
    assert record.getMessage() == "a model is no longer looked after"
    assert record.exc_info is not None
