"""The graphs of a folder, checked against what its small files say."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from pumas_server.worker.diffusion.denoiser_graph import DenoiserGraph
from pumas_server.worker.diffusion.graph import GraphInput, Tensor
from pumas_server.worker.diffusion.image_size import Sides, Size
from pumas_server.worker.diffusion.loaded_pipeline import open_pipeline
from pumas_server.worker.diffusion.no_image import NoImage
from pumas_server.worker.diffusion.pipeline import Pipeline, Strength
from pumas_server.worker.diffusion.pipeline_folder import PipelineFolder, read_pipeline_folder
from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.onnx.files import LocalFiles
from support.loaded_images import load_pipeline
from support.tiny_pipeline import build_tiny_pipeline
from support.told_graph import ToldGraph, denoiser_inputs, takes

TOKENS = {"input_ids": takes(np.int64, None, None)}
LATENTS = {"latent_sample": takes(np.float32, None, 4, None, None)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> PipelineFolder:
    root = build_tiny_pipeline(tmp_path_factory.mktemp("pipeline"))
    return read_pipeline_folder(LocalFiles(root).read)


def opened(
    folder: PipelineFolder,
    text: ToldGraph | None = None,
    unet: dict[str, GraphInput] | None = None,
    decoder: dict[str, GraphInput] | None = None,
) -> Pipeline:
    graphs = {
        "text_encoder/model.onnx": text or ToldGraph(TOKENS, ("x", "last_hidden_state")),
        "unet/model.onnx": ToldGraph(unet or denoiser_inputs()),
        "vae_decoder/model.onnx": ToldGraph(
            LATENTS if decoder is None else decoder, name="vae_decoder/model.onnx"
        ),
    }
    return open_pipeline(folder, graphs.__getitem__, Strength(2, 1.0))


def test_the_states_are_found_by_their_name(folder: PipelineFolder) -> None:
    assert opened(folder).states_output == 1


def test_the_sizes_are_those_of_the_folder_where_the_graph_takes_any(
    folder: PipelineFolder,
) -> None:
    assert opened(folder).folder.sizes == folder.sizes


def test_a_graph_for_one_size_allows_no_other(folder: PipelineFolder) -> None:
    sizes = opened(folder, unet=denoiser_inputs(sample=(1, 4, 8, 8))).folder.sizes
    assert sizes.width == sizes.height == Sides(32, 32, 32)
    wide = opened(folder, unet=denoiser_inputs(sample=(1, 4, 8, None))).folder.sizes
    assert (wide.width, wide.height) == (folder.sizes.width, Sides(32, 32, 32))
    assert wide.check(Size(64, 32)) == Size(64, 32)
    fixed = {"latent_sample": takes(np.float32, 1, 4, None, 8)}
    tall = opened(folder, decoder=fixed).folder.sizes
    assert (tall.width, tall.height) == (Sides(32, 32, 32), folder.sizes.height)


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        (
            {"text": ToldGraph(TOKENS, ("x",), "text_encoder/model.onnx")},
            "text_encoder/model.onnx: the output last_hidden_state is missing",
        ),
        (
            {"text": ToldGraph(LATENTS, ("last_hidden_state",), "text_encoder/model.onnx")},
            "text_encoder/model.onnx: the input input_ids is missing",
        ),
        (
            {
                "text": ToldGraph(
                    TOKENS | {"attention_mask": takes(np.int64)},
                    ("last_hidden_state",),
                    "text_encoder/model.onnx",
                )
            },
            "text_encoder/model.onnx: the input attention_mask is not supported",
        ),
        (
            {
                "text": ToldGraph(
                    {"input_ids": takes(np.int32, None, 64)},
                    ("last_hidden_state",),
                    "text_encoder/model.onnx",
                )
            },
            "text_encoder/model.onnx: input_ids is not of 77 tokens, as the tokenizer's are",
        ),
        (
            {"decoder": {"latent_sample": takes(np.float32, 1, 4, 4, 8)}},
            "vae_decoder/model.onnx: latent_sample is fixed to another size than sample_size",
        ),
        ({"decoder": TOKENS | LATENTS}, "vae_decoder/model.onnx: 2 inputs, not one"),
        ({"decoder": {}}, "vae_decoder/model.onnx: 0 inputs, not one"),
        (
            {"unet": denoiser_inputs(sample=(1, 4, 16, 16))},
            "unet/model.onnx: sample is fixed to another size than sample_size",
        ),
        (
            {"unet": denoiser_inputs(sample=(1, 4, 8))},
            "unet/model.onnx: sample has no height and width",
        ),
    ],
)
def test_a_graph_that_does_not_fit_is_refused(
    graphs: dict[str, object], message: str, folder: PipelineFolder
) -> None:
    with pytest.raises(HeaderFault) as caught:
        opened(folder, **graphs)  # type: ignore[arg-type]
    assert caught.value.message == message


def test_a_result_of_another_shape_is_no_image(folder: PipelineFolder) -> None:
    text = ToldGraph(TOKENS, ("last_hidden_state",))
    with pytest.raises(NoImage, match=r"^the text encoder gave the shape \(1, 77\), not"):
        opened(folder, text=text).generate("a cat", Size(16, 12), 7)


@pytest.mark.parametrize("guidance", [1.0, 5.0])
def test_a_prediction_of_another_shape_is_no_image(guidance: float, tmp_path: Path) -> None:
    whole = load_pipeline(build_tiny_pipeline(tmp_path), 2, guidance)
    told = dataclasses.replace(whole, denoiser=DenoiserGraph(Reversed(denoiser_inputs())))
    with pytest.raises(NoImage, match=r"^the denoiser gave the shape \(., 77, 16\), not"):
        told.denoise("a cat", Size(16, 12), 7)


class Reversed(ToldGraph):
    """Answers with its last feed."""

    def run(self, feeds: Mapping[str, Tensor]) -> list[Tensor]:
        return super().run(dict(reversed(feeds.items())))
