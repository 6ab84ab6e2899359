"""An implementation of text-to-image apart from ours, and the script that made `expected/`.

It shares nothing with `pumas_server`: the graphs run in the ONNX package's own evaluator, prompt
and empty prompt one after the other; the tokens come from the byte-pair algorithm written out; the
samplers follow the papers in another form than ours. With `y = x / sqrt(kept)` and
`sigma = sqrt((1 - kept) / kept)` a mixture `x` of image and noise is `y = clean + sigma * epsilon`,
and equation 12 of Song et al. 2020 (DDIM) becomes the Euler step
`y' = y + (sigma' - sigma) * epsilon` (their equation 14); all of it in float64.

`PYTHONPATH=tests python tests/server/worker/diffusion/reference.py` writes the expected results
anew. They are the latents after the last step and the decoder's output.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx.reference import ReferenceEvaluator

from support.tiny_pipeline import DDIM, LCM, Config, build_tiny_pipeline

EXPECTED = Path(__file__).with_name("expected")
Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """One image, and the pipeline that makes it."""

    steps: int
    guidance: float
    scheduler: Config = field(default_factory=lambda: DDIM)
    guided: bool = False
    prompt: str = "A cat on  MARS, don't!"
    width: int = 16
    height: int = 12
    seed: int = 7


CASES = {
    "ddim": Case(5, 7.5),
    "ddim_large": Case(3, 2.0, width=32, height=32, seed=4294967295, prompt="Ünïcode 猫 " * 60),
    "ddim_unguided": Case(4, 1.0),
    "ddim_trailing": Case(6, 3.0, DDIM | {"timestep_spacing": "trailing", "steps_offset": 0}),
    "ddim_linspace_cosine_clipped": Case(
        4,
        2.0,
        DDIM
        | {
            "timestep_spacing": "linspace",
            "beta_schedule": "squaredcos_cap_v2",
            "clip_sample": True,
            "clip_sample_range": 1.5,
            "set_alpha_to_one": True,
        },
    ),
    "ddim_velocity_zero_snr": Case(
        4,
        1.5,
        DDIM
        | {
            "prediction_type": "v_prediction",
            "rescale_betas_zero_snr": True,
            "timestep_spacing": "trailing",
            "beta_schedule": "linear",
        },
    ),
    "lcm": Case(4, 1.0, LCM),
    "lcm_steps_with_guidance": Case(3, 2.5, LCM | {"original_inference_steps": 20}),
    "lcm_velocity_clipped": Case(
        2, 1.0, LCM | {"prediction_type": "v_prediction", "clip_sample": True}
    ),
    "lcm_embedded": Case(4, 8.5, LCM, guided=True),
}


def tokens(folder: Path, prompt: str) -> npt.NDArray[np.int32]:
    """Byte pairs, lowest rank first, as the tokenizer's paper has it."""
    vocabulary = json.loads((folder / "tokenizer/vocab.json").read_text("utf-8"))
    lines = (folder / "tokenizer/merges.txt").read_text("utf-8").split("\n")[1:]
    ranks = {tuple(line.split(" ")): rank for rank, line in enumerate(lines) if line}
    visible = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = (byte for byte in range(256) if byte not in visible)
    alphabet = {byte: chr(byte) for byte in visible}
    alphabet |= {byte: chr(0x100 + at) for at, byte in enumerate(rest)}
    text = re.sub(r"\s+", " ", prompt).lower()
    found: list[int] = []
    for word in re.findall(r"'s|'t|'re|'ve|'m|'ll|'d|[^\W\d_]+|\d|[^\s\w]+", text):
        parts = [alphabet[byte] for byte in word.encode()]
        parts[-1] += "</w>"
        while len(parts) > 1:
            ranked = [
                (ranks[pair], at)
                for at in range(len(parts) - 1)
                if (pair := (parts[at], parts[at + 1])) in ranks
            ]
            if not ranked:
                break
            _, at = min(ranked)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        found += [vocabulary[part] for part in parts]
    row = [vocabulary["<|startoftext|>"], *found[:75], vocabulary["<|endoftext|>"]]
    return np.array([row + [vocabulary["!"]] * (77 - len(row))], np.int32)


def sigmas(config: Config) -> Array:
    """By timestep, the noise's share over the image's."""
    count, first, last = config["num_train_timesteps"], config["beta_start"], config["beta_end"]
    along = [at / (count - 1) for at in range(count)]
    if config["beta_schedule"] == "linear":
        betas = [first + (last - first) * a for a in along]
    elif config["beta_schedule"] == "scaled_linear":
        betas = [(first**0.5 + (last**0.5 - first**0.5) * a) ** 2 for a in along]
    else:

        def left(at: float) -> float:
            return math.cos((at + 0.008) / 1.008 * math.pi / 2) ** 2

        betas = [min(1 - left((a + 1) / count) / left(a / count), 0.999) for a in range(count)]
    kept, product = [], 1.0
    for beta in betas:
        product *= 1 - beta
        kept.append(product)
    if config.get("rescale_betas_zero_snr"):
        roots = [value**0.5 for value in kept]
        kept = [((r - roots[-1]) * roots[0] / (roots[0] - roots[-1])) ** 2 for r in roots]
    with np.errstate(divide="ignore"):
        shares: Array = np.sqrt((1 - np.array(kept)) / np.array(kept))
    return shares


def ddim_timesteps(config: Config, steps: int) -> list[int]:
    count = config["num_train_timesteps"]
    if config["timestep_spacing"] == "trailing":
        return [int(np.round(at)) - 1 for at in np.arange(count, 0, -count / steps)]
    if config["timestep_spacing"] == "linspace":
        return [int(np.round((count - 1) * at / (steps - 1))) for at in range(steps)][::-1]
    return [at * (count // steps) + config["steps_offset"] for at in range(steps)][::-1]


def lcm_timesteps(config: Config, steps: int) -> list[int]:
    originals = config["original_inference_steps"]
    stride = config["num_train_timesteps"] // originals
    schedule = list(range(stride - 1, stride * originals, stride))[::-1]
    return [schedule[math.floor(at * originals / steps)] for at in range(steps)]


def clean_and_noise(config: Config, output: Array, x: Array, sigma: float) -> tuple[Array, Array]:
    """By the angle whose tangent is sigma: a mixture is a turn by it, a velocity its derivative."""
    angle = math.atan(sigma)
    cosine = 0.0 if math.isinf(sigma) else math.cos(angle)
    if config["prediction_type"] == "v_prediction":
        clean = cosine * x - math.sin(angle) * output
        epsilon = math.sin(angle) * x + cosine * output
    else:
        clean, epsilon = x * math.sqrt(1 + sigma**2) - sigma * output, output
    if config["clip_sample"]:
        reach = config.get("clip_sample_range", 1.0)
        clean = np.minimum(np.maximum(clean, -reach), reach)
    return clean, epsilon


def sample_ddim(case: Case, predict: Callable[[Array, int], Array], x: Array) -> Array:
    config = case.scheduler
    share = sigmas(config)
    for timestep in ddim_timesteps(config, case.steps):
        before = timestep - config["num_train_timesteps"] // case.steps
        final = 0.0 if config["set_alpha_to_one"] else share[0]
        target = share[before] if before >= 0 else final
        output = predict(x, timestep)
        if config["clip_sample"] or config["prediction_type"] == "v_prediction":
            clean, epsilon = clean_and_noise(config, output, x, share[timestep])
            y = clean + target * epsilon
        else:
            y = x * math.sqrt(1 + share[timestep] ** 2) + (target - share[timestep]) * output
        x = y / math.sqrt(1 + target**2)
    return x


def sample_lcm(
    case: Case, predict: Callable[[Array, int], Array], x: Array, draw: Callable[[], Array]
) -> Array:
    config = case.scheduler
    share = sigmas(config)
    timesteps = lcm_timesteps(config, case.steps)
    for timestep, following in zip(timesteps, [*timesteps[1:], None], strict=True):
        clean, _ = clean_and_noise(config, predict(x, timestep), x, share[timestep])
        ratio = 2 * config["timestep_scaling"] * timestep
        x = x / (1 + ratio**2) + clean * ratio / math.sqrt(1 + ratio**2)
        if following is not None:
            x = (x + share[following] * draw()) / math.sqrt(1 + share[following] ** 2)
    return x


def run(case: Case) -> dict[str, npt.NDArray[np.float32]]:
    """Latents and decoded image of a case."""
    with tempfile.TemporaryDirectory() as name:
        folder = build_tiny_pipeline(Path(name), scheduler=case.scheduler, guided=case.guided)
        encoder, unet, decoder = (
            ReferenceEvaluator(str(folder / part / "model.onnx"))
            for part in ("text_encoder", "unet", "vae_decoder")
        )

        def states(prompt: str) -> Any:
            return encoder.run(["last_hidden_state"], {"input_ids": tokens(folder, prompt)})[0]

        seen, blank = states(case.prompt), states("")
    feeds: dict[str, Any] = {}
    if case.guided:
        scaled = [(case.guidance - 1) * 1000 * 10000 ** (-at / 3) for at in range(4)]
        waves = [*map(math.sin, scaled), *map(math.cos, scaled)]
        feeds["timestep_cond"] = np.array([waves], np.float32)

    def once(x: Array, timestep: int, context: Any) -> Array:
        feeds["sample"], feeds["encoder_hidden_states"] = x.astype(np.float32), context
        feeds["timestep"] = np.array([timestep])
        result: Array = unet.run(None, feeds)[0].astype(np.float64)
        return result

    def predict(x: Array, timestep: int) -> Array:
        if case.guided or case.guidance <= 1:
            return once(x, timestep, seen)
        without = once(x, timestep, blank)
        return without * (1 - case.guidance) + once(x, timestep, seen) * case.guidance

    generator = np.random.Generator(np.random.PCG64(case.seed))
    shape = (1, 4, case.height // 4, case.width // 4)

    def draw() -> Array:
        return generator.standard_normal(shape, dtype=np.float32).astype(np.float64)

    start = draw()
    if case.scheduler["_class_name"] == "LCMScheduler":
        latents = sample_lcm(case, predict, start, draw)
    else:
        latents = sample_ddim(case, predict, start)
    decoded = decoder.run(None, {"latent_sample": (latents / 0.18215).astype(np.float32)})[0]
    return {"latents": latents.astype(np.float32), "decoded": decoded}


if __name__ == "__main__":
    EXPECTED.mkdir(exist_ok=True)
    for name, case in CASES.items():
        np.savez_compressed(EXPECTED / f"{name}.npz", **run(case))
