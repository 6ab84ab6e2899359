"""The pipeline against an implementation apart from it, and what of a request moves an image."""

from __future__ import annotations

import dataclasses
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pumas_crds.vocabulary import Reason
from pumas_server.worker.diffusion.image_size import Size
from pumas_server.worker.diffusion.no_image import NotFinite
from pumas_server.worker.diffusion.pipeline import Pipeline, Strength
from pumas_server.worker.header_fault import HeaderFault
from support.loaded_images import load_pipeline
from support.tiny_pipeline import DDIM, LCM, Config, build_tiny_pipeline

REFERENCE: dict[str, Any] = runpy.run_path(str(Path(__file__).with_name("reference.py")))
CASES = REFERENCE["CASES"]
EXPECTED: Path = REFERENCE["EXPECTED"]
TOLERANCE = 1e-3
SIZE = Size(16, 12)


@pytest.mark.parametrize("name", CASES)
def test_latents_and_image_are_those_of_an_independent_implementation(
    name: str, tmp_path: Path
) -> None:
    case = CASES[name]
    folder = build_tiny_pipeline(tmp_path, scheduler=case.scheduler, guided=case.guided)
    pipeline = load_pipeline(folder, case.steps, case.guidance)
    size = Size(case.width, case.height)
    with np.load(EXPECTED / f"{name}.npz") as expected:
        latents = pipeline.denoise(case.prompt, size, case.seed)
        np.testing.assert_allclose(latents, expected["latents"], rtol=0, atol=TOLERANCE)
        decoded = pipeline.decode(latents)
        np.testing.assert_allclose(decoded, expected["decoded"], rtol=0, atol=TOLERANCE)
        bright = np.clip(expected["decoded"][0] / 2 + 0.5, 0, 1).transpose(1, 2, 0)
    pixels = pipeline.generate(case.prompt, size, case.seed)
    assert pixels.shape == (case.height, case.width, 3)
    # Half a level of rounding, and the tolerance on 255 levels.
    assert np.abs(pixels - bright * 255).max() <= 0.5 + TOLERANCE * 255


@pytest.mark.parametrize("name", CASES)
def test_the_committed_results_are_those_that_the_script_writes(name: str) -> None:
    with np.load(EXPECTED / f"{name}.npz") as expected:
        written = REFERENCE["run"](CASES[name])
        assert expected.files == list(written)
        for key, value in written.items():
            np.testing.assert_allclose(value, expected[key], rtol=0, atol=1e-5)


def test_no_committed_result_is_without_a_case() -> None:
    assert {path.stem for path in EXPECTED.iterdir()} == set(CASES)


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return load_pipeline(build_tiny_pipeline(tmp_path), 4, 5.0)


def denoise(pipeline: Pipeline, prompt: str = "a cat", size: Size = SIZE, seed: int = 7) -> Any:
    return pipeline.denoise(prompt, size, seed)


def with_strength(pipeline: Pipeline, **change: Any) -> Pipeline:
    return dataclasses.replace(pipeline, strength=dataclasses.replace(pipeline.strength, **change))


def test_the_same_request_makes_the_same_bytes(pipeline: Pipeline, tmp_path: Path) -> None:
    again = load_pipeline(build_tiny_pipeline(tmp_path / "again"), 4, 5.0)
    first = pipeline.generate("a cat", SIZE, 7)
    assert first.tobytes() == pipeline.generate("a cat", SIZE, 7).tobytes()
    assert first.tobytes() == again.generate("a cat", SIZE, 7).tobytes()


def test_prompt_seed_guidance_and_steps_each_change_the_image(pipeline: Pipeline) -> None:
    images = [
        pipeline.generate("a cat", SIZE, 7),
        pipeline.generate("a dog", SIZE, 7),
        pipeline.generate("a cat", SIZE, 8),
        with_strength(pipeline, guidance=9.0).generate("a cat", SIZE, 7),
        with_strength(pipeline, guidance=1.0).generate("a cat", SIZE, 7),
        with_strength(pipeline, steps=5).generate("a cat", SIZE, 7),
    ]
    assert len({image.tobytes() for image in images}) == len(images)


SCHEDULERS: list[Config] = [
    DDIM,
    LCM,
    DDIM | {"prediction_type": "v_prediction"},
    DDIM | {"timestep_spacing": "trailing"},
    DDIM | {"timestep_spacing": "linspace"},
    DDIM | {"steps_offset": 0},
    DDIM | {"set_alpha_to_one": True},
    DDIM | {"beta_schedule": "linear"},
    DDIM | {"beta_schedule": "squaredcos_cap_v2"},
    DDIM | {"beta_end": 0.01},
    DDIM | {"beta_start": 0.002},
    DDIM | {"clip_sample": True},
    DDIM | {"clip_sample": True, "clip_sample_range": 0.5},
    DDIM | {"num_train_timesteps": 500},
    DDIM | {"prediction_type": "v_prediction", "rescale_betas_zero_snr": True},
    LCM | {"original_inference_steps": 20},
    LCM | {"timestep_scaling": 0.001},
    LCM | {"clip_sample": True},
]


def test_every_option_of_a_scheduler_changes_the_latents(tmp_path: Path) -> None:
    results = set()
    for number, scheduler in enumerate(SCHEDULERS):
        folder = build_tiny_pipeline(tmp_path / str(number), scheduler=scheduler)
        results.add(denoise(load_pipeline(folder, 4, 1.0)).tobytes())
    assert len(results) == len(SCHEDULERS)


def test_guidance_that_is_an_input_changes_the_image(tmp_path: Path) -> None:
    pipeline = load_pipeline(build_tiny_pipeline(tmp_path, scheduler=LCM, guided=True), 4, 8.5)
    weak = denoise(with_strength(pipeline, guidance=1.5))
    assert np.abs(denoise(pipeline) - weak).max() > 0.01


def test_a_denoiser_for_one_latent_at_a_time_gives_the_same(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    single = load_pipeline(build_tiny_pipeline(tmp_path / "single", batch=1), 4, 5.0)
    np.testing.assert_allclose(denoise(single), denoise(pipeline), rtol=0, atol=1e-4)


def test_a_denoiser_in_half_precision_is_fed_and_read_in_it(
    pipeline: Pipeline, tmp_path: Path
) -> None:
    half = load_pipeline(build_tiny_pipeline(tmp_path / "half", half=True), 4, 5.0)
    result = denoise(half)
    assert result.dtype == np.float32
    assert 0 < np.abs(result - denoise(pipeline)).max() < 0.1


def test_a_prompt_over_the_tokens_is_cut_where_they_end(pipeline: Pipeline) -> None:
    long = "cat " * 75
    assert denoise(pipeline, long).tobytes() == denoise(pipeline, long + "dog").tobytes()
    assert denoise(pipeline, long).tobytes() != denoise(pipeline, "cat " * 74).tobytes()


@pytest.mark.parametrize(
    ("graph", "part"),
    [
        ("text_encoder", "the text encoder"),
        ("unet", "the denoiser"),
        ("vae_decoder", "the decoder"),
    ],
)
def test_a_number_that_is_none_is_found_where_it_arises(
    graph: str, part: str, tmp_path: Path
) -> None:
    broken = load_pipeline(build_tiny_pipeline(tmp_path, not_finite=graph), 2, 1.0)
    with pytest.raises(NotFinite, match=f"^{part} gave"):
        broken.generate("a cat", SIZE, 7)


def test_steps_and_guidance_are_those_of_the_sampler_unless_asked_for(tmp_path: Path) -> None:
    plain = build_tiny_pipeline(tmp_path / "plain")
    few = build_tiny_pipeline(tmp_path / "few", scheduler=LCM)
    guided = build_tiny_pipeline(tmp_path / "guided", scheduler=LCM, guided=True)
    three = build_tiny_pipeline(tmp_path / "three", scheduler=LCM | {"original_inference_steps": 3})
    assert load_pipeline(plain).strength == Strength(25, 7.5)
    assert load_pipeline(few).strength == Strength(4, 1.0)
    assert load_pipeline(guided).strength == Strength(4, 8.5)
    assert load_pipeline(three).strength == Strength(3, 1.0)
    assert load_pipeline(plain, 7, 0.0).strength == Strength(7, 0.0)


@pytest.mark.parametrize(
    ("scheduler", "steps", "guidance", "message"),
    [
        (LCM, 0, None, "steps is 0; this model takes 1 to 50"),
        (LCM, 51, None, "steps is 51; this model takes 1 to 50"),
        (DDIM, 501, None, "steps is 501; this model takes 1 to 500"),
        (DDIM, None, -0.5, "guidance is -0.5; it can be 0 to 100"),
        (DDIM, None, 100.5, "guidance is 100.5; it can be 0 to 100"),
        (DDIM, None, float("nan"), "guidance is nan; it can be 0 to 100"),
    ],
)
def test_steps_and_guidance_that_cannot_be_are_refused(
    scheduler: Config, steps: int | None, guidance: float | None, message: str, tmp_path: Path
) -> None:
    folder = build_tiny_pipeline(tmp_path, scheduler=scheduler)
    with pytest.raises(HeaderFault) as caught:
        load_pipeline(folder, steps, guidance)
    assert (caught.value.reason, caught.value.message) == (Reason.INVALID_SPEC, message)
