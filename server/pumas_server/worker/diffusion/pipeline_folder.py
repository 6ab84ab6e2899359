"""What the small files of an exported text-to-image folder say, before any weight is loaded.

The layout is the hub's: `model_index.json`, `tokenizer/`, `scheduler/`, and one folder for each of
`text_encoder`, `unet` and `vae_decoder` with `config.json` and `model.onnx`, whose weights may lie
beside it. The index decides: a pipeline class, a part or an option that this release does not know
is refused by its name, because an image that was made without it would not be the model's.

A folder that asks for a safety checker is refused too. None is run here, and to pass over what a
publisher put there would be a decision made for whoever serves the model; setting `safety_checker`
to null in the index makes it openly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pumas_crds.facts import FileFacts
from pumas_server.worker.diffusion.folder_files import Read, read_required
from pumas_server.worker.diffusion.image_size import Size, Sizes, build_sizes
from pumas_server.worker.diffusion.json_config import CONFIG_BYTES, JsonConfig, not_built
from pumas_server.worker.diffusion.lcm import Lcm
from pumas_server.worker.diffusion.prompt_tokens import (
    DEFAULT_LENGTH,
    LENGTH_LIMIT,
    PromptTokenizer,
    read_prompt_tokenizer,
)
from pumas_server.worker.diffusion.scheduler import Scheduler, read_scheduler
from pumas_server.worker.header_fault import no_model
from pumas_server.worker.legible import legible

INDEX = "model_index.json"
SCHEDULER = "scheduler/scheduler_config.json"
TEXT_ENCODER, UNET, VAE_DECODER = GRAPHS = (
    "text_encoder/model.onnx",
    "unet/model.onnx",
    "vae_decoder/model.onnx",
)
TEXT_ENCODER_CONFIG = "text_encoder/config.json"
UNET_CONFIG = "unet/config.json"
VAE_CONFIG = "vae_decoder/config.json"

CONSISTENCY_PIPELINE = "LatentConsistencyModelPipeline"
PIPELINES = (
    "StableDiffusionPipeline",
    "OnnxStableDiffusionPipeline",
    "ORTStableDiffusionPipeline",
    CONSISTENCY_PIPELINE,
)
_NEEDED = ("scheduler", "text_encoder", "tokenizer", "unet")
#: Parts that a text alone does not come by, and the training framework's halves of the autoencoder.
_UNUSED = ("feature_extractor", "image_encoder", "vae", "vae_decoder", "vae_encoder")
#: Inputs of a denoiser beside the latents, the timestep, the prompt and the guidance.
_DENOISER_EXTRAS = (
    "addition_embed_type",
    "class_embed_type",
    "encoder_hid_dim",
    "encoder_hid_dim_type",
    "num_class_embeds",
)
_DECODER_EXTRAS = ("latents_mean", "latents_std", "shift_factor")
_WIDTH_LIMIT = 1 << 16
_LEVELS_LIMIT = 6
_SIDE_LIMIT = 1024
_SCALING_DEFAULT = 0.18215


@dataclass(frozen=True, slots=True)
class Denoiser:
    """What `unet/config.json` says."""

    channels: int
    """Of the latents."""
    native: Size
    """In latent pixels."""
    shrink: int
    """By how much its lowest resolution is below that of the latents."""
    context_width: int
    """Of the text encoder's states."""
    guidance_width: int
    """Of the guidance's embedding; 0 when guidance is no input."""


@dataclass(frozen=True, slots=True)
class PipelineFolder:
    """A folder that can be served, as far as its small files tell."""

    pipeline: str
    """The class that the index names."""
    tokenizer: PromptTokenizer
    denoiser: Denoiser
    scheduler: Scheduler
    latent_scale: float
    """What the decoder's input is multiplied by while it is denoised."""
    upscale: int
    """Pixels of the image for one of the latents, each way."""
    sizes: Sizes


def read_pipeline_facts(read: Read) -> FileFacts:
    """What the folder is, or `HeaderFault`: the inspection of a pipeline, by its small files."""
    folder = read_pipeline_folder(read)
    return FileFacts(
        architecture=folder.pipeline,
        context_tokens=folder.tokenizer.length,
        tokenizer="clip",
        causal=False,
    )


def read_pipeline_folder(read: Read) -> PipelineFolder:
    """Read all the small files; raises `HeaderFault` for what is missing, wrong or not known."""
    pipeline = _read_index(_read_config(read, INDEX))
    scheduler = read_scheduler(_read_config(read, SCHEDULER))
    denoiser = _read_denoiser(_read_config(read, UNET_CONFIG))
    if pipeline == CONSISTENCY_PIPELINE:
        _check_consistency(scheduler, denoiser)
    tokenizer = _read_text_encoder(read, denoiser)
    vae = _read_config(read, VAE_CONFIG)
    vae.refuse(_DECODER_EXTRAS)
    if vae.whole("latent_channels", 1, _WIDTH_LIMIT, 4) != denoiser.channels:
        raise no_model(
            f"{VAE_CONFIG}: latent_channels differs from in_channels in {UNET_CONFIG}:"
            " the folder does not make images of text alone"
        )
    upscale = _doublings(vae.length("block_out_channels", 1, _LEVELS_LIMIT))
    native = Size(denoiser.native.width * upscale, denoiser.native.height * upscale)
    return PipelineFolder(
        pipeline=pipeline,
        tokenizer=tokenizer,
        denoiser=denoiser,
        scheduler=scheduler,
        latent_scale=vae.number("scaling_factor", 0.0, 1e6, _SCALING_DEFAULT),
        upscale=upscale,
        sizes=build_sizes(native, upscale * denoiser.shrink),
    )


def _doublings(levels: int) -> int:
    """Between two levels of a network the resolution is halved, or doubled."""
    return 1 << (levels - 1)


def _read_config(read: Read, name: str) -> JsonConfig:
    return JsonConfig.read(name, read_required(read, name, CONFIG_BYTES))


def _read_index(index: JsonConfig) -> str:
    pipeline = index.word("_class_name", PIPELINES)
    for part in _NEEDED:
        if not _names_a_class(index.members.get(part)):
            raise no_model(f"{INDEX}: the part {part} is missing")
    for part, value in index.members.items():
        if part in _NEEDED or part in _UNUSED or not _names_a_class(value):
            continue
        if part == "safety_checker":
            raise not_built(
                f"{INDEX}: safety_checker is not run here; to serve the model without one,"
                " set it to null"
            )
        raise not_built(f"{INDEX}: the part {legible(part, 80)} is not supported")
    return pipeline


def _names_a_class(value: object) -> bool:
    """Whether an entry of the index is a part: a library and a class, neither of them null."""
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and any(w is not None for w in value)
    )


def _check_consistency(scheduler: Scheduler, denoiser: Denoiser) -> None:
    if not isinstance(scheduler, Lcm):
        raise no_model(f"{SCHEDULER}: a {CONSISTENCY_PIPELINE} needs an LCMScheduler")
    if not denoiser.guidance_width:
        raise not_built(f"{UNET_CONFIG}: a {CONSISTENCY_PIPELINE} needs time_cond_proj_dim")


def _read_denoiser(config: JsonConfig) -> Denoiser:
    config.refuse(_DENOISER_EXTRAS)
    channels = config.whole("in_channels", 1, _WIDTH_LIMIT, 4)
    if config.whole("out_channels", 1, _WIDTH_LIMIT, 4) != channels:
        raise not_built(f"{UNET_CONFIG}: out_channels differs from in_channels")
    width = config.members.get("time_cond_proj_dim")
    return Denoiser(
        channels=channels,
        native=_read_native(config),
        shrink=_doublings(config.length("block_out_channels", 1, _LEVELS_LIMIT, 4)),
        context_width=config.whole("cross_attention_dim", 1, _WIDTH_LIMIT),
        guidance_width=0 if width is None else config.whole("time_cond_proj_dim", 4, _WIDTH_LIMIT),
    )


def _read_native(config: JsonConfig) -> Size:
    """`sample_size` is one number, or height and width."""
    value = config.members.get("sample_size")
    if isinstance(value, list) and len(value) == 2:
        sides = JsonConfig(
            config.file, {f"sample_size[{at}]": side for at, side in enumerate(value)}
        )
        height = sides.whole("sample_size[0]", 1, _SIDE_LIMIT)
        return Size(sides.whole("sample_size[1]", 1, _SIDE_LIMIT), height)
    side = config.whole("sample_size", 1, _SIDE_LIMIT)
    return Size(side, side)


def _read_text_encoder(read: Read, denoiser: Denoiser) -> PromptTokenizer:
    config = _read_config(read, TEXT_ENCODER_CONFIG)
    positions = config.whole("max_position_embeddings", 2, LENGTH_LIMIT, DEFAULT_LENGTH)
    width = config.whole("hidden_size", 1, _WIDTH_LIMIT, denoiser.context_width)
    if width != denoiser.context_width:
        raise no_model(
            f"{TEXT_ENCODER_CONFIG}: hidden_size {width} differs from"
            f" cross_attention_dim {denoiser.context_width} in {UNET_CONFIG}"
        )
    tokenizer = read_prompt_tokenizer(read, positions)
    words = config.whole("vocab_size", 1, 1 << 24, tokenizer.largest + 1)
    if tokenizer.largest >= words:
        raise no_model(
            f"{TEXT_ENCODER_CONFIG}: vocab_size {words} does not hold the tokenizer's"
            f" {tokenizer.largest + 1} tokens"
        )
    return tokenizer
