"""Where a session computes, by the reports that sessions have given."""

from __future__ import annotations

import pytest

from pumas_server.worker.onnx.device import DeviceRefusal, device_of, select_providers

CUDA, TENSORRT, CPU = "CUDAExecutionProvider", "TensorrtExecutionProvider", "CPUExecutionProvider"


@pytest.mark.parametrize(
    ("requested", "report", "device"),
    [
        ("cpu", [CPU], "cpu"),
        ("auto", [CPU], "cpu"),
        ("auto", [CUDA, CPU], "cuda"),
        ("cuda", [CUDA, CPU], "cuda"),
        ("auto", ["AzureExecutionProvider", CPU], "cpu"),
    ],
)
def test_what_was_got(requested: str, report: list[str], device: str) -> None:
    assert device_of(requested, report) == device


@pytest.mark.parametrize(
    ("report", "told"),
    [([CPU], CPU), ([TENSORRT, CPU], f"{TENSORRT}, {CPU}"), ([], "none")],
)
def test_cuda_that_was_not_got_is_refused(report: list[str], told: str) -> None:
    assert device_of("cuda", report) == DeviceRefusal(
        "CUDA was asked for, but the engine could not set it up;"
        f" its execution providers are: {told}"
    )


@pytest.mark.parametrize(
    ("requested", "available", "asked"),
    [
        ("cpu", [CUDA, CPU], [CPU]),
        ("cuda", [TENSORRT, CUDA, CPU], [CUDA, CPU]),
        ("cuda", [CPU], [CPU]),
        ("auto", [CUDA, CPU], [CUDA, CPU]),
        ("auto", ["AzureExecutionProvider", CPU], [CPU]),
    ],
)
def test_what_is_asked_for(requested: str, available: list[str], asked: list[str]) -> None:
    options = {"arena_extend_strategy": "kSameAsRequested"}
    found = select_providers(requested, available, options)
    assert found == [(name, options if name == CUDA else {}) for name in asked]
