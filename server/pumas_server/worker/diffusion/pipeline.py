"""A text-to-image pipeline, loaded: from prompt, size and seed to the pixels of one image.

The order of things is that of the exported layout: the prompt's tokens through the text encoder;
noise from the seed; so many steps of the denoiser, each turned into less noisy latents by the
sampler; the decoder. Between graphs everything is float32, whatever type a graph takes. Each
result is checked for numbers that are none, so a broken or overflowing model ends in `NotFinite`
at the part where it broke, and never in a black image.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import numpy.typing as npt

from pumas_crds.vocabulary import Reason
from pumas_server.worker.diffusion.ddim import DEFAULT_GUIDANCE as DDIM_GUIDANCE
from pumas_server.worker.diffusion.ddim import Ddim
from pumas_server.worker.diffusion.denoiser_graph import DenoiserGraph
from pumas_server.worker.diffusion.graph import Graph, run_graph
from pumas_server.worker.diffusion.guidance import (
    GUIDANCE_LIMIT,
    build_guidance_embedding,
    combine_predictions,
)
from pumas_server.worker.diffusion.image_size import Size
from pumas_server.worker.diffusion.lcm import DEFAULT_EMBEDDED_GUIDANCE, Lcm
from pumas_server.worker.diffusion.lcm import DEFAULT_GUIDANCE as LCM_GUIDANCE
from pumas_server.worker.diffusion.no_image import NoImage, NotFinite
from pumas_server.worker.diffusion.noise import Noise
from pumas_server.worker.diffusion.pipeline_folder import PipelineFolder
from pumas_server.worker.diffusion.png_image import Pixels, build_pixels
from pumas_server.worker.diffusion.prediction import Latents
from pumas_server.worker.header_fault import HeaderFault

Floats = npt.NDArray[np.float32]
States = Floats
"""`[prompts, tokens, width]`, what the text encoder made of prompts."""


@dataclass(frozen=True, slots=True)
class Strength:
    """How an image is made, beside what it shows."""

    steps: int
    guidance: float


@dataclass(frozen=True, slots=True)
class Pipeline:
    """The loaded parts."""

    folder: PipelineFolder
    text_encoder: Graph
    states_output: int
    """Which of the text encoder's outputs has the states."""
    denoiser: DenoiserGraph
    decoder: Graph
    strength: Strength

    def generate(self, prompt: str, size: Size, seed: int) -> Pixels:
        """Make one image of a size that the pipeline allows; the same for the same arguments.

        Raises `NoImage`, and `NotFinite` of that, when a part's result is none.
        """
        # What overflows is found by the checks, not told on standard error.
        with np.errstate(over="ignore", invalid="ignore"):
            return build_pixels(self.decode(self.denoise(prompt, size, seed)))

    def denoise(self, prompt: str, size: Size, seed: int) -> Latents:
        """The latents of the image, as the last step leaves them."""
        up = self.folder.upscale
        shape = (1, self.folder.denoiser.channels, size.height // up, size.width // up)
        noise = Noise(seed)
        sample = noise.draw(shape)
        predict = self._build_predictor(prompt)
        sampler = self.folder.scheduler
        timesteps = sampler.timesteps(self.strength.steps)
        for at, timestep in enumerate(timesteps):
            sample = sampler.advance(predict(sample, timestep), sample, timesteps, at, noise)
        return _finite(sample, shape, "the sampler")

    def decode(self, latents: Latents) -> Floats:
        """The image as `[1, 3, height, width]` of about -1 to 1."""
        up = self.folder.upscale
        (name,) = self.decoder.inputs
        scaled = latents / np.float32(self.folder.latent_scale)
        decoded = run_graph(self.decoder, {name: scaled}, 0)
        _, _, height, width = latents.shape
        return _finite(decoded, (1, 3, height * up, width * up), "the decoder")

    def _build_predictor(self, prompt: str) -> Callable[[Latents, int], Latents]:
        guidance = self.strength.guidance
        width = self.folder.denoiser.guidance_width
        if width:
            embedding = build_guidance_embedding(guidance, width)
            states = self._encode(prompt)
            return lambda sample, at: self._predict(sample, at, states, embedding)
        if guidance <= 1.0:
            states = self._encode(prompt)
            return lambda sample, at: self._predict(sample, at, states, None)
        both = np.concatenate([self._encode(""), self._encode(prompt)])

        def predict(sample: Latents, at: int) -> Latents:
            doubled = np.concatenate([sample, sample])
            without, with_prompt = np.split(self._predict(doubled, at, both, None), 2)
            return combine_predictions(without, with_prompt, guidance)

        return predict

    def _predict(
        self, sample: Latents, timestep: int, states: States, guidance: Floats | None
    ) -> Latents:
        output = self.denoiser.run(sample, timestep, states, guidance)
        return _finite(output, sample.shape, "the denoiser")

    def _encode(self, prompt: str) -> States:
        tokens = self.folder.tokenizer.encode(prompt)
        (name,) = self.text_encoder.inputs
        states = run_graph(self.text_encoder, {name: tokens}, self.states_output)
        shape = (*tokens.shape, self.folder.denoiser.context_width)
        return _finite(states, shape, "the text encoder")


def select_strength(folder: PipelineFolder, steps: int | None, guidance: float | None) -> Strength:
    """What was asked for, or what the sampler is made for.

    Raises `HeaderFault` (`INVALID_SPEC`) for numbers that the pipeline cannot do.
    """
    sampler = folder.scheduler
    steps = min(sampler.default_steps, sampler.steps_limit) if steps is None else steps
    if not 1 <= steps <= sampler.steps_limit:
        raise HeaderFault(
            Reason.INVALID_SPEC, f"steps is {steps}; this model takes 1 to {sampler.steps_limit}"
        )
    guidance = _default_guidance(folder) if guidance is None else guidance
    if not 0.0 <= guidance <= GUIDANCE_LIMIT:
        raise HeaderFault(
            Reason.INVALID_SPEC, f"guidance is {guidance:g}; it can be 0 to {GUIDANCE_LIMIT:g}"
        )
    return Strength(steps, guidance)


def _default_guidance(folder: PipelineFolder) -> float:
    if folder.denoiser.guidance_width:
        return DEFAULT_EMBEDDED_GUIDANCE
    match folder.scheduler:
        case Ddim():
            return DDIM_GUIDANCE
        case Lcm():
            return LCM_GUIDANCE
        case _:
            assert_never(folder.scheduler)


def _finite(result: Floats, shape: tuple[int, ...], part: str) -> Floats:
    if result.shape != shape:
        raise NoImage(f"{part} gave the shape {result.shape}, not {shape}")
    if not np.isfinite(result).all():
        raise NotFinite(f"{part} gave a number that is not finite")
    return result
