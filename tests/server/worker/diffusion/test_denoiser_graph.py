"""What a denoiser's graph is fed, and which graphs are refused."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from pumas_crds.vocabulary import Reason
from pumas_server.worker.diffusion.denoiser_graph import build_denoiser_graph
from pumas_server.worker.diffusion.graph import GraphInput
from pumas_server.worker.header_fault import HeaderFault
from support.told_graph import ToldGraph, denoiser_inputs, takes

SAMPLE = np.arange(2 * 4 * 2 * 3, dtype=np.float32).reshape(2, 4, 2, 3)
STATES = np.arange(2 * 5 * 16, dtype=np.float32).reshape(2, 5, 16)


def test_latents_are_run_together_with_one_timestep() -> None:
    graph = ToldGraph(denoiser_inputs())
    result = build_denoiser_graph(graph, guided=False).run(SAMPLE, 7, STATES, None)
    np.testing.assert_array_equal(result, SAMPLE)
    (fed,) = graph.runs
    assert list(fed) == ["sample", "timestep", "encoder_hidden_states"]
    assert (fed["timestep"].tolist(), fed["timestep"].dtype) == ([7], np.int64)
    np.testing.assert_array_equal(fed["encoder_hidden_states"], STATES)


def test_a_graph_for_one_at_a_time_gets_each_with_its_states() -> None:
    graph = ToldGraph(denoiser_inputs(sample=(1, 4, None, None)))
    result = build_denoiser_graph(graph, guided=False).run(SAMPLE, 7, STATES, None)
    np.testing.assert_array_equal(result, SAMPLE)
    assert len(graph.runs) == 2
    for row, fed in enumerate(graph.runs):
        np.testing.assert_array_equal(fed["sample"], SAMPLE[[row]])
        np.testing.assert_array_equal(fed["encoder_hidden_states"], STATES[[row]])


@pytest.mark.parametrize(("shape", "fed"), [((), 7), ((None,), [7]), ((1,), [7]), ((2,), [7, 7])])
def test_the_timestep_has_the_declared_shape(shape: tuple[int | None, ...], fed: object) -> None:
    graph = ToldGraph(denoiser_inputs(timestep=shape))
    build_denoiser_graph(graph, guided=False).run(SAMPLE, 7, STATES, None)
    assert graph.runs[0]["timestep"].tolist() == fed


def test_guidance_is_fed_where_it_is_an_input() -> None:
    graph = ToldGraph(denoiser_inputs(timestep_cond=takes(np.float16, None, 8)))
    guidance = np.ones((1, 8), np.float32)
    build_denoiser_graph(graph, guided=True).run(SAMPLE[:1], 7, STATES[:1], guidance)
    assert graph.runs[0]["timestep_cond"].dtype == np.float16


ODD = takes(np.float32, None)


@pytest.mark.parametrize(
    ("inputs", "guided", "reason", "message"),
    [
        (
            {"sample": ODD, "timestep": ODD},
            False,
            Reason.NOT_A_MODEL,
            "the input encoder_hidden_states is missing",
        ),
        (denoiser_inputs(), True, Reason.NOT_A_MODEL, "the input timestep_cond is missing"),
        (
            denoiser_inputs(timestep_cond=ODD),
            False,
            Reason.NOT_IMPLEMENTED,
            "the input timestep_cond is not supported",
        ),
        (
            denoiser_inputs(time_ids=ODD),
            False,
            Reason.NOT_IMPLEMENTED,
            "the input time_ids is not supported",
        ),
        (
            denoiser_inputs(sample=(2, 4, None, None)),
            False,
            Reason.NOT_IMPLEMENTED,
            "sample does not take one latent image at a time",
        ),
        (
            denoiser_inputs(sample=()),
            False,
            Reason.NOT_IMPLEMENTED,
            "sample does not take one latent image at a time",
        ),
        (
            denoiser_inputs(timestep=(1, 1)),
            False,
            Reason.NOT_A_MODEL,
            "timestep is no number",
        ),
    ],
)
def test_a_graph_that_asks_for_something_else_is_refused(
    inputs: Mapping[str, GraphInput], guided: bool, reason: Reason, message: str
) -> None:
    with pytest.raises(HeaderFault) as caught:
        build_denoiser_graph(ToldGraph(inputs), guided)
    assert (caught.value.reason, caught.value.message) == (reason, f"unet/model.onnx: {message}")
