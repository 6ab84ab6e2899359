"""One loaded graph, as the pipeline sees it: named inputs with types and shapes, and a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Tensor = npt.NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class GraphInput:
    """What a graph says of one input."""

    dtype: np.dtype[np.generic]
    shape: tuple[int | None, ...]
    """None where the graph takes any size."""


class Graph(Protocol):
    """A graph that can be run."""

    @property
    def name(self) -> str:
        """Its file's name in the folder, for faults."""

    @property
    def inputs(self) -> Mapping[str, GraphInput]:
        """Its inputs."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of its outputs, in the order in which `run` gives them."""

    @property
    def device(self) -> str:
        """Where it computes, by its own account."""

    def run(self, feeds: Mapping[str, Tensor]) -> list[Tensor]:
        """Compute all outputs from all inputs."""


def run_graph(graph: Graph, feeds: Mapping[str, Tensor], output: int) -> npt.NDArray[np.float32]:
    """Run a graph with the types that it declares; returns one output in float32."""
    cast = {name: value.astype(graph.inputs[name].dtype) for name, value in feeds.items()}
    return graph.run(cast)[output].astype(np.float32)
