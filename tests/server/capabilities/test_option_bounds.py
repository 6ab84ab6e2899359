"""The ranges that descriptors state: the document's names and numbers, and an engine's own limits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_crds.facts import Limit
from pumas_server.capabilities import resolve
from pumas_server.capabilities.option_bounds import build_bounds
from pumas_server.capabilities.rows import ROW_OF, ROWS, Row
from pumas_server.contract.errors import Code, ContractError
from pumas_server.contract.words import Capability
from support.documents import INPUTS, OPTIONS, operation
from support.offers import DECLARED, JSON, PICTURES, VECTOR, VECTOR_VISION, Descriptors, model

IMAGES = {
    "image_bytes": (1, 8_388_608),
    "total_image_bytes": (1, 16_777_216),
    "image_count": (1, 4),
    "image_pixels": (1, 4_194_304),
    "width": (1, 4096),
    "height": (1, 4096),
    "message_count": (1, 128),
    "content_parts": (1, 128),
}
CLIPS = {
    "audio_count": (1, 4),
    "total_audio_bytes": (1, 16_777_216),
    "audio_seconds": (0, 30),
    "sample_rate": (8000, 192_000),
}
DRAWN = {
    "width": (1, 4_294_967_295),
    "height": (1, 4_294_967_295),
    "seed": (0, 4_294_967_295),
    "input_characters": (1, 4000),
}
TEXT = {"max_tokens": (1, 4_294_967_295), "temperature": (0, 2), "top_p": (0, 1)}


def bounds_of(name: str, capability: str) -> dict[str, tuple[float, float]]:
    (found,) = [d for d in DECLARED[name] if d.capability == capability]
    return {b.option: (b.minimum, b.maximum) for b in found.option_bounds}


@pytest.mark.parametrize(
    ("name", "capability", "expected"),
    [
        ("llm", "chat_generation", {**TEXT, "max_tokens": (1, 4096)}),
        ("vlm", "chat_generation", TEXT | IMAGES),
        ("vlm", "text_generation", TEXT),
        ("vlm", "image_to_text", TEXT | IMAGES),
        ("omni", "chat_generation", TEXT | IMAGES | CLIPS),
        ("omni", "image_to_text", TEXT | IMAGES),
        ("mme", "text_embedding", {}),
        ("mme", "multimodal_embedding", IMAGES),
        ("omni emb", "multimodal_embedding", IMAGES | CLIPS),
        ("dec", "decision", {}),
        ("dec with eyes", "decision", IMAGES),
        ("img", "image_generation", DRAWN),
    ],
)
def test_case_83_a_descriptor_names_the_bounds_of_all_that_it_takes(
    name: str, capability: str, expected: dict[str, tuple[float, float]]
) -> None:
    assert bounds_of(name, capability) == expected


@pytest.mark.parametrize("name", sorted(DECLARED))
def test_who_declares_a_medium_states_its_bounds_and_nobody_else_does(name: str) -> None:
    for descriptor in DECLARED[name]:
        stated = {b.option for b in descriptor.option_bounds}
        assert (stated >= {*IMAGES}) is ("image" in descriptor.input_modalities)
        assert (stated >= {*CLIPS}) is ("audio" in descriptor.input_modalities)


#: What the in-process adapter states of itself.
ONNX = (
    Limit(option="input_count", minimum=1, maximum=128),
    Limit(option="input_characters", minimum=0, maximum=65_536),
    Limit(option="input_tokens", minimum=1, maximum=512),
    Limit(option="dimensions", minimum=1, maximum=8),
)
DRAWS = (
    Limit(option="width", minimum=16, maximum=64),
    Limit(option="height", minimum=16, maximum=64),
    Limit(option="seed", minimum=0, maximum=4_294_967_295),
    Limit(option="input_characters", minimum=1, maximum=4000),
)


def test_an_engines_limits_are_bounds_of_what_they_measure() -> None:
    embeds = model(mode="embed", ready=True, embedding_width=8, limits=ONNX)
    stated = {d.capability: {b.option: b.maximum for b in d.option_bounds} for d in embeds}
    counts = {"input_count": 128, "input_characters": 65_536, "input_tokens": 512}
    assert stated[Capability.TEXT_EMBEDDING] == {"dimensions": 8, **counts}
    assert stated[Capability.RERANK] == counts
    assert not {*counts} & {*stated[Capability.CHAT_GENERATION]}
    draws = model(mode="generate-image", ready=True, limits=DRAWS)
    (found,) = [d for d in draws if d.capability is Capability.IMAGE_GENERATION]
    assert [(b.option, b.minimum, b.maximum) for b in found.option_bounds] == [
        (limit.option, limit.minimum, limit.maximum) for limit in DRAWS
    ]


def test_a_limit_that_no_number_keeps_is_no_bound() -> None:
    upside_down = (Limit(option="input_count", minimum=2, maximum=1),)
    row = ROW_OF[Capability.TEXT_EMBEDDING]
    nothing: dict[str, Any] = {"context_tokens": None, "embedding_width": None}
    assert build_bounds(row, ("text",), limits=upside_down, **nothing) == ()


EMBEDS = model(mode="embed", modalities=VECTOR, ready=True, embedding_width=8, limits=ONNX)
RANKS = model(mode="rerank", modalities=JSON, ready=True, limits=ONNX)
PAINTS = model(mode="generate-image", modalities=PICTURES, ready=True, limits=DRAWS)
SENSES = model(mode="embed", modalities=VECTOR_VISION, ready=True, limits=ONNX)


def answered(descriptors: Descriptors, wanted: Any, output: str, **changes: Any) -> str:
    """The resolved capability, or why the request is not one."""
    asked = {"input": wanted, "output": output, "capability": ..., "options": ..., **changes}
    try:
        return resolve(operation(**asked), descriptors).capability
    except ContractError as error:
        assert error.code is Code.INVALID_REQUEST
        return error.message.removeprefix("request does not match the contract: ")


def texts(count: int, characters: int = 1) -> dict[str, Any]:
    return {"kind": "text_batch", "texts": ["é" * characters] * count}


def reranking(query: str, *documents: str) -> dict[str, Any]:
    return {"kind": "rerank", "query": query, "documents": list(documents)}


def items(count: int) -> dict[str, Any]:
    return {"kind": "content_batch", "items": [{"parts": [{"kind": "text", "text": "a"}]}] * count}


VECTORS, SCORES = "embeddings_float32", "relevance_scores"


@pytest.mark.parametrize(
    ("descriptors", "wanted", "output", "expected"),
    [
        (EMBEDS, texts(128), VECTORS, "text_embedding"),
        (EMBEDS, texts(129), VECTORS, "input_count of `input` is 129; text_embedding of this model"
         " allows 1 to 128"),
        # Characters are code points, over all texts.
        (EMBEDS, texts(2, 32_768), VECTORS, "text_embedding"),
        (EMBEDS, texts(1, 65_537), VECTORS, "input_characters of `input` is 65537; text_embedding"
         " of this model allows 0 to 65536"),
        (EMBEDS, texts(2, 32_769), VECTORS, "input_characters of `input` is 65538; text_embedding"
         " of this model allows 0 to 65536"),
        (EMBEDS, {"kind": "text", "text": "a" * 65_537}, VECTORS, "input_characters of `input` is"
         " 65537; text_embedding of this model allows 0 to 65536"),
        (SENSES, items(128), VECTORS, "multimodal_embedding"),
        (SENSES, items(129), VECTORS, "input_count of `input` is 129; multimodal_embedding of this"
         " model allows 1 to 128"),
        (RANKS, reranking("q", *["d"] * 128), SCORES, "rerank"),
        (RANKS, reranking("q", *["d"] * 129), SCORES, "input_count of `input` is 129; rerank of"
         " this model allows 1 to 128"),
        # The query is part of what is read.
        (RANKS, reranking("q" * 65_535, "d"), SCORES, "rerank"),
        (RANKS, reranking("q" * 65_536, "d"), SCORES, "input_characters of `input` is 65537; rerank"
         " of this model allows 0 to 65536"),
    ],
)  # fmt: skip
def test_case_55_an_input_over_an_engines_limit_is_refused_with_both_numbers(
    descriptors: Descriptors, wanted: Any, output: str, expected: str
) -> None:
    assert answered(descriptors, wanted, output) == expected


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ({"width": 16, "height": 64}, "image_generation"),
        ({"width": 15, "height": 64}, "`options.width` is 15; image_generation of this model allows"
         " 16 to 64"),
        ({"width": 64, "height": 65}, "`options.height` is 65; image_generation of this model"
         " allows 16 to 64"),
    ],
)  # fmt: skip
def test_an_images_size_is_within_what_its_engine_draws(
    size: dict[str, int], expected: str
) -> None:
    options = {"kind": "image_generation", **size}
    assert answered(PAINTS, INPUTS["text"], "png_base64", options=options) == expected


def test_bounds_of_media_are_not_taken_for_options() -> None:
    """`width` of a seeing model bounds images that it is shown, and no option is called so."""
    asked = operation(input=INPUTS["image"], capability=..., options=OPTIONS["text_generation"])
    assert resolve(asked, DECLARED["vlm"]).capability is Capability.IMAGE_TO_TEXT


_limits = st.lists(
    st.builds(
        Limit,
        option=st.sampled_from(
            ["input_count", "input_characters", "input_tokens", "width", "seed", "image_bytes"]
        ),
        minimum=st.integers(-(2**40), 2**40),
        maximum=st.integers(-(2**40), 2**40),
    ),
    max_size=6,
)


@given(
    row=st.sampled_from(ROWS),
    takes=st.lists(st.sampled_from(["text", "image", "audio"]), unique=True),
    limits=_limits,
)
def test_whatever_an_engine_states_names_are_unique_and_ranges_hold(
    row: Row, takes: list[str], limits: list[Limit]
) -> None:
    found = build_bounds(row, takes, context_tokens=7, embedding_width=7, limits=limits)
    names = [bound.option for bound in found]
    assert len(names) == len({*names})
    assert all(bound.minimum <= bound.maximum for bound in found)
    # Bounds that keep the decoders safe are nobody's to widen.
    if "image" in takes:
        stated = {b.option: b.maximum for b in found}
        assert {name: stated[name] for name in IMAGES} == {n: top for n, (_, top) in IMAGES.items()}
