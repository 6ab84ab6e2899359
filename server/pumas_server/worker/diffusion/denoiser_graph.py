"""The denoiser's graph: what it is fed, and how many latents at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pumas_server.worker.diffusion.graph import Graph, Tensor, run_graph
from pumas_server.worker.diffusion.json_config import not_built
from pumas_server.worker.diffusion.prediction import Latents
from pumas_server.worker.header_fault import no_model
from pumas_server.worker.legible import legible

SAMPLE = "sample"
TIMESTEP = "timestep"
STATES = "encoder_hidden_states"
GUIDANCE = "timestep_cond"


@dataclass(frozen=True, slots=True)
class DenoiserGraph:
    """A graph with the inputs that are checked by `build_denoiser_graph`."""

    graph: Graph

    def run(
        self,
        sample: Latents,
        timestep: int,
        states: npt.NDArray[np.float32],
        guidance: npt.NDArray[np.float32] | None,
    ) -> Latents:
        """The prediction for each of the latents, which have as many states.

        A graph that was exported for one latent at a time is run for one after the other.
        """
        if self.graph.inputs[SAMPLE].shape[:1] == (1,):
            rows = range(len(sample))
            parts = [self._feed(sample[[r]], timestep, states[[r]], guidance) for r in rows]
            return np.concatenate(parts)
        return self._feed(sample, timestep, states, guidance)

    def _feed(
        self,
        sample: Latents,
        timestep: int,
        states: npt.NDArray[np.float32],
        guidance: npt.NDArray[np.float32] | None,
    ) -> Latents:
        # One timestep serves all latents, unless the graph says that each has its own.
        shape = tuple(size or 1 for size in self.graph.inputs[TIMESTEP].shape)
        feeds: dict[str, Tensor] = {
            SAMPLE: sample,
            TIMESTEP: np.full(shape, timestep),
            STATES: states,
        }
        if guidance is not None:
            feeds[GUIDANCE] = guidance
        return run_graph(self.graph, feeds, 0)


def build_denoiser_graph(graph: Graph, guided: bool) -> DenoiserGraph:
    """Check the inputs of a graph that takes guidance as an input, or does not.

    Raises `HeaderFault`, naming the graph and the input, for one that is missing or not known, and
    for a fixed number of latents other than one: with guidance it is two, without it is one.
    """
    wanted = {SAMPLE, TIMESTEP, STATES} | ({GUIDANCE} if guided else set())
    check_inputs(graph, wanted)
    batch = graph.inputs[SAMPLE].shape[:1]
    if batch not in ((None,), (1,)):
        raise not_built(f"{graph.name}: {SAMPLE} does not take one latent image at a time")
    if len(graph.inputs[TIMESTEP].shape) > 1:
        raise no_model(f"{graph.name}: {TIMESTEP} is no number")
    return DenoiserGraph(graph)


def check_inputs(graph: Graph, wanted: set[str]) -> None:
    """Raise `HeaderFault` unless a graph has these inputs and no others."""
    for name in sorted(wanted - graph.inputs.keys()):
        raise no_model(f"{graph.name}: the input {name} is missing")
    for name in sorted(graph.inputs.keys() - wanted):
        raise not_built(f"{graph.name}: the input {legible(name, 80)} is not supported")
