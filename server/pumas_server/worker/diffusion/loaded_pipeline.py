"""Loads a folder into a pipeline: the graphs opened, and checked against the small files."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from pumas_server.worker.diffusion.denoiser_graph import (
    SAMPLE,
    build_denoiser_graph,
    check_inputs,
)
from pumas_server.worker.diffusion.graph import Graph
from pumas_server.worker.diffusion.image_size import Sides, Sizes
from pumas_server.worker.diffusion.pipeline import Pipeline, Strength
from pumas_server.worker.diffusion.pipeline_folder import (
    TEXT_ENCODER,
    UNET,
    VAE_DECODER,
    PipelineFolder,
)
from pumas_server.worker.header_fault import no_model

TOKENS = "input_ids"
STATES = "last_hidden_state"

OpenGraph = Callable[[str], Graph]
"""Opens a graph by its name in the folder; raises `HeaderFault`."""


def open_pipeline(folder: PipelineFolder, open_graph: OpenGraph, strength: Strength) -> Pipeline:
    """Open the three graphs of a folder; raises `HeaderFault` for one that does not fit it."""
    text_encoder = open_graph(TEXT_ENCODER)
    check_inputs(text_encoder, {TOKENS})
    if STATES not in text_encoder.outputs:
        raise no_model(f"{TEXT_ENCODER}: the output {STATES} is missing")
    denoiser = build_denoiser_graph(open_graph(UNET), guided=folder.denoiser.guidance_width > 0)
    decoder = open_graph(VAE_DECODER)
    if len(decoder.inputs) != 1:
        raise no_model(f"{VAE_DECODER}: {len(decoder.inputs)} inputs, not one")
    sizes = select_sizes(folder, denoiser.graph.inputs[SAMPLE].shape[2:])
    return Pipeline(
        folder=dataclasses.replace(folder, sizes=sizes),
        text_encoder=text_encoder,
        states_output=text_encoder.outputs.index(STATES),
        denoiser=denoiser,
        decoder=decoder,
        strength=strength,
    )


def select_sizes(folder: PipelineFolder, latent_sides: tuple[int | None, ...]) -> Sizes:
    """The sizes of a folder, less those that its denoiser was not exported for.

    `latent_sides` are height and width that the graph is fixed to, in latent pixels.
    """
    if len(latent_sides) != 2:
        raise no_model(f"{UNET}: {SAMPLE} has no height and width")
    height, width = latent_sides
    sizes = folder.sizes
    native = folder.denoiser.native
    if height not in (None, native.height) or width not in (None, native.width):
        raise no_model(f"{UNET}: {SAMPLE} is fixed to another size than sample_size")
    return dataclasses.replace(
        sizes,
        height=sizes.height if height is None else _only(sizes.native.height),
        width=sizes.width if width is None else _only(sizes.native.width),
    )


def _only(pixels: int) -> Sides:
    return Sides(smallest=pixels, largest=pixels, step=pixels)
