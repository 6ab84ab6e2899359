"""A folder loaded and asked for images, as the engine's server does it."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image

from pumas_server.worker.diffusion.image_model import PATH, build_handler, load_image_model
from pumas_server.worker.diffusion.image_size import Size
from pumas_server.worker.diffusion.no_image import NoImage
from pumas_server.worker.diffusion.pipeline import Pipeline
from pumas_server.worker.diffusion.png_image import Pixels
from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.onnx.served import Limit, Served, Unfit
from support.loaded_images import load_pipeline
from support.tiny_pipeline import LCM, build_tiny_pipeline

BODY: dict[str, object] = {"model": "m", "prompt": "a cat", "size": "16x12", "seed": 7}


def ask(served: Served, **change: object) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(served.handlers[PATH](BODY | change))
    return answer


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    folder = build_tiny_pipeline(tmp_path_factory.mktemp("pipeline"))
    return load_image_model(folder, "cpu", 1, 3, None)


def test_what_is_offered_is_advertised(served: Served) -> None:
    assert list(served.handlers) == [PATH]
    assert (served.input_modalities, served.output_modalities) == (("text",), ("image",))
    assert (served.device, served.context_tokens, served.embedding_width) == ("cpu", 77, 0)
    assert served.limits == (
        Limit("input_characters", 1, 4000),
        Limit("width", 4, 64),
        Limit("height", 4, 64),
        Limit("seed", 0, 4294967295),
    )


def test_an_image_has_the_size_and_the_pixels_of_its_request(
    served: Served, tmp_path: Path
) -> None:
    answer = ask(served)
    assert list(answer) == ["created", "seed", "data"]
    assert answer["seed"] == 7
    assert isinstance(answer["created"], int)
    (item,) = answer["data"]
    with Image.open(io.BytesIO(base64.b64decode(item["b64_json"], validate=True))) as image:
        assert (image.format, image.mode, image.size) == ("PNG", "RGB", (16, 12))
        pixels = np.asarray(image)
    pipeline = load_pipeline(build_tiny_pipeline(tmp_path), 3)
    np.testing.assert_array_equal(pixels, pipeline.generate("a cat", Size(16, 12), 7))
    assert pixels.std() > 10


def test_the_same_request_has_the_same_bytes_on_every_thread(served: Served) -> None:
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: ask(served)["data"], range(8)))
    assert all(answer == answers[0] for answer in answers)


def test_a_seed_that_is_not_given_is_drawn_reported_and_repeatable(served: Served) -> None:
    first, second = ask(served, seed=None), ask(served, seed=None)
    assert first["seed"] != second["seed"]
    assert 0 <= first["seed"] < 1 << 32
    assert ask(served, seed=first["seed"])["data"] == first["data"]


def test_the_time_and_the_seed_are_those_of_clock_and_draw(tmp_path: Path) -> None:
    pipeline = load_pipeline(build_tiny_pipeline(tmp_path), 1)
    handle = build_handler(pipeline, draw_seed=lambda: 42, clock=lambda: 1234.9)
    answer = json.loads(handle({"prompt": "a cat"}))
    assert (answer["created"], answer["seed"]) == (1234, 42)


def test_what_is_asked_for_at_loading_changes_the_image(tmp_path: Path) -> None:
    plain = build_tiny_pipeline(tmp_path / "plain")
    few = build_tiny_pipeline(tmp_path / "few", scheduler=LCM)
    images = {
        ask(load_image_model(folder, "cpu", 1, steps, guidance))["data"][0]["b64_json"]
        for folder, steps, guidance in [
            (plain, None, None),
            (plain, 4, None),
            (plain, None, 2.0),
            (plain, 4, 2.0),
            (few, None, None),
            (few, 4, 2.0),
        ]
    }
    assert len(images) == 6


@pytest.mark.parametrize(
    ("graph", "part"),
    [
        ("text_encoder", "the text encoder"),
        ("unet", "the denoiser"),
        ("vae_decoder", "the decoder"),
    ],
)
def test_numbers_that_are_none_give_a_null_and_never_an_image(
    graph: str, part: str, tmp_path: Path
) -> None:
    broken = load_image_model(build_tiny_pipeline(tmp_path, not_finite=graph), "cpu", 1, 2, None)
    answer = ask(broken)
    assert answer["data"] == [{"b64_json": None}]
    assert answer["problem"] == f"{part} gave a number that is not finite"
    assert answer["seed"] == 7


class Watching(Pipeline):
    """A pipeline that makes no image, but remembers whether it was its turn."""

    turn = threading.Lock()
    turns: ClassVar[list[bool]] = []

    def generate(self, prompt: str, size: Size, seed: int) -> Pixels:
        self.turns.append(self.turn.locked())
        raise NoImage(f"{prompt} is no image")


def test_one_image_is_made_at_a_time_and_a_failure_passes_the_turn_on(tmp_path: Path) -> None:
    real = load_pipeline(build_tiny_pipeline(tmp_path), 1)
    parts = {field.name: getattr(real, field.name) for field in dataclasses.fields(real)}
    handle = build_handler(Watching(**parts), turn=Watching.turn)
    for _ in range(2):
        answer = json.loads(handle(BODY))
        assert answer["data"] == [{"b64_json": None}]
        assert answer["problem"] == "a cat is no image"
        assert not Watching.turn.locked()
    assert Watching.turns == [True, True]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"size": "18x12"}, "width"),
        ({"size": "16x68"}, "height"),
        ({"prompt": " "}, "prompt"),
        ({"prompt": "x" * 4001}, "prompt"),
        ({"seed": -1}, "seed"),
    ],
)
def test_a_request_that_cannot_be_done_is_unfit(
    change: dict[str, object], field: str, served: Served
) -> None:
    with pytest.raises(Unfit, match=f"^{field} "):
        ask(served, **change)


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HeaderFault, match=r"^the file model_index.json is missing$"):
        load_image_model(tmp_path, "cpu", 1, None, None)
    folder = build_tiny_pipeline(tmp_path)
    (folder / "unet/model.onnx").unlink()
    with pytest.raises(
        HeaderFault, match=r"^ONNX Runtime cannot load unet/model.onnx \(NoSuchFile"
    ):
        load_image_model(folder, "cpu", 1, None, None)
