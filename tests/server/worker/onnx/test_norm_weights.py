"""A layer norm's weights are read as the format's own library wrote them, or refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.onnx.norm_weights import read_layer_norm

WEIGHT = np.arange(8, dtype=np.float32)
BIAS = np.arange(8, 16, dtype=np.float32)
GOOD = save({"norm.weight": WEIGHT, "norm.bias": BIAS})


def test_weights() -> None:
    norm = read_layer_norm(GOOD, 8)
    assert norm.weight.tolist() == WEIGHT.tolist()
    assert norm.bias.tolist() == BIAS.tolist()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no safetensors file"),
        (GOOD[:-1], "no safetensors file"),
        (b"\xff" * 64, "no safetensors file"),
        (save({"weight": WEIGHT}), "no safetensors file"),
        (save({"norm.weight": WEIGHT[:7], "norm.bias": BIAS}), "norm.weight is no vector of 8"),
        (save({"norm.weight": WEIGHT, "norm.bias": BIAS.astype(np.float16)}), "norm.bias is no"),
        (bytes((4 << 20) + 1), "more than 4194304 bytes"),
    ],
)
def test_what_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(HeaderFault, match=message):
        read_layer_norm(data, 8)


@given(st.integers(0, len(GOOD) - 1), st.binary(min_size=1, max_size=8))
def test_mutations(at: int, patch: bytes) -> None:
    try:
        norm = read_layer_norm(GOOD[:at] + patch + GOOD[at + len(patch) :], 8)
    except HeaderFault:
        return
    assert norm.weight.shape == norm.bias.shape == (8,)
