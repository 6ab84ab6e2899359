"""A graph that is told what it takes, and records what it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from pumas_server.worker.diffusion.graph import GraphInput, Tensor


@dataclass
class ToldGraph:
    """Answers every run with its first feed."""

    inputs: Mapping[str, GraphInput]
    outputs: tuple[str, ...] = ("out_sample",)
    name: str = "unet/model.onnx"
    device: str = "cpu"
    runs: list[dict[str, Tensor]] = field(default_factory=list)

    def run(self, feeds: Mapping[str, Tensor]) -> list[Tensor]:
        self.runs.append(dict(feeds))
        return [next(iter(feeds.values()))]


def takes(kind: type[np.generic], *shape: int | None) -> GraphInput:
    return GraphInput(np.dtype(kind), shape)


def denoiser_inputs(
    sample: Sequence[int | None] = (None, 4, None, None),
    timestep: Sequence[int | None] = (None,),
    kind: type[np.generic] = np.float32,
    **more: GraphInput,
) -> dict[str, GraphInput]:
    return {
        "sample": takes(kind, *sample),
        "timestep": takes(np.int64, *timestep),
        "encoder_hidden_states": takes(kind, None, None, 16),
        **more,
    }
