"""A text-to-image folder, served: the composition of this package, and its one handler."""

from __future__ import annotations

import base64
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path

import orjson

from pumas_server.worker.diffusion.graph_session import open_graph
from pumas_server.worker.diffusion.image_request import (
    PROMPT_CHARACTERS,
    SEED_MAX,
    read_image_request,
)
from pumas_server.worker.diffusion.image_size import Sizes
from pumas_server.worker.diffusion.loaded_pipeline import open_pipeline
from pumas_server.worker.diffusion.no_image import NoImage
from pumas_server.worker.diffusion.pipeline import Pipeline, select_strength
from pumas_server.worker.diffusion.pipeline_folder import read_pipeline_folder
from pumas_server.worker.diffusion.png_image import build_png
from pumas_server.worker.onnx.files import LocalFiles
from pumas_server.worker.onnx.served import Handler, Limit, Served

PATH = "/v1/images/generations"
CONTRACT_SIDES = ("`options.width`", "`options.height`")
"""Where an operation of the contract has the sides."""


def load_image_model(
    root: Path, device: str, threads: int, steps: int | None, guidance: float | None
) -> Served:
    """Load the folder `root`; steps and guidance are those of its sampler where they are None.

    Raises `HeaderFault` for a folder that cannot be served, or not with these numbers.
    """
    folder = read_pipeline_folder(LocalFiles(root).read)
    strength = select_strength(folder, steps, guidance)
    pipeline = open_pipeline(folder, lambda name: open_graph(root, name, device, threads), strength)
    return Served(
        handlers={PATH: build_handler(pipeline)},
        checks={PATH: build_check(pipeline)},
        input_modalities=("text",),
        output_modalities=("image",),
        device=pipeline.denoiser.graph.device,
        limits=build_limits(pipeline.folder.sizes),
        context_tokens=folder.tokenizer.length,
    )


def draw_any_seed() -> int:
    """A seed that nobody can foretell."""
    return secrets.randbelow(SEED_MAX + 1)


def build_limits(sizes: Sizes) -> tuple[Limit, ...]:
    """What a request may ask for, as it is advertised.

    Beside these, a side is a multiple of its smallest, and the area is bounded: see `image_size`.
    """
    return (
        Limit("input_characters", 1, PROMPT_CHARACTERS),
        Limit("width", sizes.width.smallest, sizes.width.largest),
        Limit("height", sizes.height.smallest, sizes.height.largest),
        Limit("seed", 0, SEED_MAX),
    )


def build_check(pipeline: Pipeline) -> Callable[[dict[str, object]], None]:
    """What refuses a body that the handler would refuse, in the words of the contract.

    The router asks it for an operation of the contract, whose caller wrote no `size`.
    """

    def check(body: dict[str, object]) -> None:
        read_image_request(body, pipeline.folder.sizes, CONTRACT_SIDES)

    return check


def build_handler(
    pipeline: Pipeline,
    draw_seed: Callable[[], int] = draw_any_seed,
    clock: Callable[[], float] = time.time,
    turn: threading.Lock | None = None,
) -> Handler:
    """The handler of `POST /v1/images/generations`.

    One image is made at a time, and `turn` is held for it: what it takes of memory is known for
    one. The answer reports the
    seed, drawn where none was given. An image that did not come about is an answer too, with null
    in its place and a `problem` that says why; no other image is put there.
    """
    one = threading.Lock() if turn is None else turn

    def handle(body: dict[str, object]) -> bytes:
        request = read_image_request(body, pipeline.folder.sizes)
        seed = draw_seed() if request.seed is None else request.seed
        answer: dict[str, object] = {"created": int(clock()), "seed": seed}
        try:
            with one:
                png = build_png(pipeline.generate(request.prompt, request.size, seed))
        except NoImage as problem:
            answer |= {"data": [{"b64_json": None}], "problem": str(problem)}
        else:
            answer |= {"data": [{"b64_json": base64.b64encode(png).decode()}]}
        return orjson.dumps(answer)

    return handle
