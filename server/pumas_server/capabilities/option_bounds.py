"""The ranges that a descriptor states: of its options, of its input, of the media it takes."""

from __future__ import annotations

from collections.abc import Sequence

from pumas_crds.facts import Limit
from pumas_server.capabilities.rows import Row
from pumas_server.contract import bounds
from pumas_server.contract.descriptors import OptionBound
from pumas_server.contract.words import OptionsKind

#: Decode-safety bounds of images (*Endpoints*): the same for every model.
IMAGE_BOUNDS = tuple(
    OptionBound(option=option, minimum=1, maximum=maximum)
    for option, maximum in (
        ("image_bytes", bounds.MAX_IMAGE_BYTES),
        ("total_image_bytes", bounds.MAX_TOTAL_IMAGE_BYTES),
        ("image_count", bounds.MAX_IMAGES),
        ("image_pixels", bounds.MAX_IMAGE_PIXELS),
        ("width", bounds.MAX_IMAGE_SIDE),
        ("height", bounds.MAX_IMAGE_SIDE),
        ("message_count", bounds.MAX_IMAGE_MESSAGES),
        ("content_parts", bounds.MAX_CONTENT_PARTS),
    )
)

#: Bounds of clips (*Modalities*).
AUDIO_BOUNDS = (
    OptionBound(option="audio_count", minimum=1, maximum=bounds.MAX_CLIPS),
    OptionBound(option="total_audio_bytes", minimum=1, maximum=bounds.MAX_TOTAL_AUDIO_BYTES),
    OptionBound(option="audio_seconds", minimum=0, maximum=bounds.AUDIO_SECONDS_MAX),
    OptionBound(
        option="sample_rate", minimum=bounds.SAMPLE_RATE_MIN, maximum=bounds.SAMPLE_RATE_MAX
    ),
)


def build_bounds(
    row: Row,
    takes: Sequence[str],
    *,
    context_tokens: int | None,
    embedding_width: int | None,
    limits: Sequence[Limit],
) -> tuple[OptionBound, ...]:
    """The bounds of one capability of a model that takes these modalities.

    Of its options first, then what its engine states of its input, then of its media. No name
    occurs twice.
    """
    found = {bound.option: bound for bound in row.fixed_bounds}
    found |= {b.option: b for b in _of_options(row.options, context_tokens, embedding_width)}
    for limit in limits:
        if limit.option in row.measures and limit.minimum <= limit.maximum:
            found[limit.option] = OptionBound(**limit.model_dump())
    if "image" in takes:
        found |= {bound.option: bound for bound in IMAGE_BOUNDS}
    if "audio" in takes:
        found |= {bound.option: bound for bound in AUDIO_BOUNDS}
    return tuple(found.values())


def _of_options(
    kind: OptionsKind, context_tokens: int | None, embedding_width: int | None
) -> tuple[OptionBound, ...]:
    match kind:
        case OptionsKind.TEXT_GENERATION:
            tokens = context_tokens or bounds.U32_MAX
            return (
                OptionBound(option="max_tokens", minimum=1, maximum=tokens),
                OptionBound(option="temperature", minimum=0, maximum=bounds.TEMPERATURE_MAX),
                OptionBound(option="top_p", minimum=0, maximum=bounds.TOP_P_MAX),
            )
        case OptionsKind.EMBEDDINGS if embedding_width:
            return (OptionBound(option="dimensions", minimum=1, maximum=embedding_width),)
        case _:
            return ()
