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
from pumas_server.worker.diffusion.image_size import Sides, Size, Sizes
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
    _check_text_encoder(text_encoder, folder.tokenizer.length)
    denoiser = build_denoiser_graph(open_graph(UNET), guided=folder.denoiser.guidance_width > 0)
    decoder = open_graph(VAE_DECODER)
    if len(decoder.inputs) != 1:
        raise no_model(f"{VAE_DECODER}: {len(decoder.inputs)} inputs, not one")
    (latents,) = decoder.inputs
    native = folder.denoiser.native
    sizes = select_sizes(folder.sizes, native, denoiser.graph, SAMPLE)
    sizes = select_sizes(sizes, native, decoder, latents)
    return Pipeline(
        folder=dataclasses.replace(folder, sizes=sizes),
        text_encoder=text_encoder,
        states_output=text_encoder.outputs.index(STATES),
        denoiser=denoiser,
        decoder=decoder,
        strength=strength,
    )


def select_sizes(sizes: Sizes, native: Size, graph: Graph, name: str) -> Sizes:
    """The sizes that are left when a graph takes latents of fixed height or width as `name`.

    `native` is in latent pixels. Raises `HeaderFault` when it is fixed to anything else.
    """
    sides = graph.inputs[name].shape[2:]
    if len(sides) != 2:
        raise no_model(f"{graph.name}: {name} has no height and width")
    height, width = sides
    if height not in (None, native.height) or width not in (None, native.width):
        raise no_model(f"{graph.name}: {name} is fixed to another size than sample_size")
    return dataclasses.replace(
        sizes,
        height=sizes.height if height is None else _only(sizes.native.height),
        width=sizes.width if width is None else _only(sizes.native.width),
    )


def _check_text_encoder(graph: Graph, length: int) -> None:
    check_inputs(graph, {TOKENS})
    if STATES not in graph.outputs:
        raise no_model(f"{graph.name}: the output {STATES} is missing")
    fixed = graph.inputs[TOKENS].shape[1:]
    if fixed not in ((None,), (length,)):
        raise no_model(f"{graph.name}: {TOKENS} is not of {length} tokens, as the tokenizer's are")


def _only(pixels: int) -> Sides:
    return Sides(smallest=pixels, largest=pixels, step=pixels)
