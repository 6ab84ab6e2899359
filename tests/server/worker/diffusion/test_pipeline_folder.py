"""A pipeline's small files: what they say, and each refusal by its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pumas_crds.facts import FileFacts
from pumas_crds.vocabulary import Reason
from pumas_server.worker.diffusion.ddim import Ddim
from pumas_server.worker.diffusion.image_size import Sides, Size
from pumas_server.worker.diffusion.pipeline_folder import (
    GRAPHS,
    PIPELINES,
    Denoiser,
    read_pipeline_facts,
    read_pipeline_folder,
)
from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.onnx.files import LocalFiles
from support.tiny_pipeline import LCM, Config, build_tiny_pipeline

INDEX = "model_index.json"
SCHEDULER = "scheduler/scheduler_config.json"
TEXT = "text_encoder/config.json"
UNET = "unet/config.json"
VAE = "vae_decoder/config.json"


def test_the_folder_says_what_the_pipeline_is(tmp_path: Path) -> None:
    folder = read_pipeline_folder(LocalFiles(build_tiny_pipeline(tmp_path)).read)
    assert folder.pipeline == "StableDiffusionPipeline"
    assert folder.denoiser == Denoiser(
        channels=4, native=Size(8, 8), shrink=1, context_width=16, guidance_width=0
    )
    assert isinstance(folder.scheduler, Ddim)
    assert (folder.latent_scale, folder.upscale, folder.tokenizer.length) == (0.18215, 4, 77)
    assert folder.sizes.width == Sides(4, 64, 4)


def test_the_facts_need_no_weights(tmp_path: Path) -> None:
    build_tiny_pipeline(tmp_path)
    for name in GRAPHS:
        (tmp_path / name).unlink()
    assert read_pipeline_facts(LocalFiles(tmp_path).read) == FileFacts(
        architecture="StableDiffusionPipeline", context_tokens=77, tokenizer="clip", causal=False
    )


def change(name: str, **members: Any) -> dict[str, Config]:
    return {name: members}


READABLE: list[tuple[dict[str, Config], Callable[[Any], object], object]] = [
    *((change(INDEX, _class_name=name), lambda f: f.pipeline, name) for name in PIPELINES[:3]),
    (change(INDEX, safety_checker=None), lambda f: f.upscale, 4),
    (change(INDEX, feature_extractor=["transformers", "X"]), lambda f: f.upscale, 4),
    (change(INDEX, vae_encoder=["diffusers", "OnnxRuntimeModel"]), lambda f: f.upscale, 4),
    (change(UNET, sample_size=[6, 10]), lambda f: f.sizes.native, Size(40, 24)),
    (change(UNET, block_out_channels=None), lambda f: f.sizes.width, Sides(32, 64, 32)),
    (change(UNET, block_out_channels=[8, 8]), lambda f: f.sizes.width, Sides(8, 64, 8)),
    (change(UNET, time_cond_proj_dim=256), lambda f: f.denoiser.guidance_width, 256),
    (change(VAE, scaling_factor=0.5), lambda f: f.latent_scale, 0.5),
    (change(VAE, scaling_factor=None), lambda f: f.latent_scale, 0.18215),
    (change(VAE, block_out_channels=[1] * 4), lambda f: f.sizes.native, Size(64, 64)),
    (change(TEXT, max_position_embeddings=60), lambda f: f.tokenizer.length, 60),
]


@pytest.mark.parametrize(("changed", "look", "value"), READABLE)
def test_what_the_files_say_is_believed(
    changed: dict[str, Config], look: Callable[[Any], object], value: object, tmp_path: Path
) -> None:
    folder = build_tiny_pipeline(tmp_path, changed=changed)
    assert look(read_pipeline_folder(LocalFiles(folder).read)) == value


UNKNOWN = Reason.NOT_IMPLEMENTED
WRONG = Reason.NOT_A_MODEL
REFUSED: list[tuple[dict[str, Config], Reason, str]] = [
    (
        change(INDEX, _class_name="StableDiffusionXLPipeline"),
        UNKNOWN,
        f'{INDEX}: _class_name is "StableDiffusionXLPipeline"; supported: {", ".join(PIPELINES)}',
    ),
    (change(INDEX, _class_name=None), WRONG, f"{INDEX}: _class_name is missing"),
    (change(INDEX, unet=None), WRONG, f"{INDEX}: the part unet is missing"),
    (change(INDEX, tokenizer=[None, None]), WRONG, f"{INDEX}: the part tokenizer is missing"),
    (
        change(INDEX, safety_checker=["stable_diffusion", "StableDiffusionSafetyChecker"]),
        UNKNOWN,
        f"{INDEX}: safety_checker is not run here; to serve the model without one, set it to null",
    ),
    (
        change(INDEX, text_encoder_2=["transformers", "CLIPTextModel"]),
        UNKNOWN,
        f"{INDEX}: the part text_encoder_2 is not supported",
    ),
    (
        change(SCHEDULER, _class_name="PNDMScheduler"),
        UNKNOWN,
        f'{SCHEDULER}: _class_name is "PNDMScheduler"; supported: DDIMScheduler, LCMScheduler',
    ),
    (change(UNET, in_channels=9, out_channels=9), WRONG, f"{VAE}: latent_channels differs from"),
    (change(UNET, out_channels=8), UNKNOWN, f"{UNET}: out_channels differs from in_channels"),
    (
        change(UNET, addition_embed_type="text_time"),
        UNKNOWN,
        f"{UNET}: addition_embed_type is not supported",
    ),
    (
        change(UNET, class_embed_type="timestep"),
        UNKNOWN,
        f"{UNET}: class_embed_type is not supported",
    ),
    (change(UNET, num_class_embeds=10), UNKNOWN, f"{UNET}: num_class_embeds is not supported"),
    (change(UNET, cross_attention_dim=None), WRONG, f"{UNET}: cross_attention_dim is missing"),
    (
        change(UNET, cross_attention_dim=24),
        WRONG,
        f"{TEXT}: hidden_size 16 differs from cross_attention_dim 24 in {UNET}",
    ),
    (change(UNET, sample_size=None), WRONG, f"{UNET}: sample_size is missing"),
    (change(UNET, sample_size=10**9), WRONG, f"{UNET}: sample_size is 1000000000, not an integer"),
    (change(UNET, sample_size=[8, 0]), WRONG, f"{UNET}: sample_size[1] is 0, not an integer"),
    (change(UNET, sample_size=1024), WRONG, "an image has 16777216 pixels; at most 2097152 are"),
    (
        change(UNET, sample_size=6, block_out_channels=[8] * 3),
        WRONG,
        "an image has a side of 24 pixels, no multiple of 16",
    ),
    (change(UNET, time_cond_proj_dim=2), WRONG, f"{UNET}: time_cond_proj_dim is 2, not an integer"),
    (change(VAE, shift_factor=0.1), UNKNOWN, f"{VAE}: shift_factor is not supported"),
    (change(VAE, latents_mean=[0.0]), UNKNOWN, f"{VAE}: latents_mean is not supported"),
    (change(VAE, scaling_factor=0), WRONG, f"{VAE}: scaling_factor is 0, not a number above 0"),
    (change(VAE, block_out_channels=[1] * 7), WRONG, f"{VAE}: block_out_channels has 7 elements"),
    (change(VAE, block_out_channels=None), WRONG, f"{VAE}: block_out_channels is missing"),
    (change(TEXT, vocab_size=5), WRONG, f"{TEXT}: vocab_size 5 does not hold the tokenizer's "),
    (change(TEXT, max_position_embeddings=10**6), WRONG, f"{TEXT}: max_position_embeddings is"),
    (
        change(INDEX, _class_name="LatentConsistencyModelPipeline"),
        WRONG,
        f"{SCHEDULER}: a LatentConsistencyModelPipeline needs an LCMScheduler",
    ),
    (
        change(INDEX, _class_name="LatentConsistencyModelPipeline") | {SCHEDULER: LCM},
        UNKNOWN,
        f"{UNET}: a LatentConsistencyModelPipeline needs time_cond_proj_dim",
    ),
]


@pytest.mark.parametrize(("changed", "reason", "message"), REFUSED)
def test_what_is_wrong_or_not_known_is_refused_by_name(
    changed: dict[str, Config], reason: Reason, message: str, tmp_path: Path
) -> None:
    folder = build_tiny_pipeline(tmp_path, changed=changed)
    with pytest.raises(HeaderFault) as caught:
        read_pipeline_folder(LocalFiles(folder).read)
    assert caught.value.message.startswith(message)
    assert caught.value.reason is reason


@pytest.mark.parametrize("name", [INDEX, SCHEDULER, TEXT, UNET, VAE])
def test_a_missing_or_broken_file_is_named(name: str, tmp_path: Path) -> None:
    folder = build_tiny_pipeline(tmp_path)
    (folder / name).write_bytes(b"{]")
    with pytest.raises(HeaderFault, match=f"^{name} is not valid JSON$"):
        read_pipeline_folder(LocalFiles(folder).read)
    (folder / name).unlink()
    with pytest.raises(HeaderFault, match=f"^the file {name} is missing$") as caught:
        read_pipeline_folder(LocalFiles(folder).read)
    assert caught.value.reason is Reason.NOT_A_MODEL
