"""What a model's own config says of how an image becomes numbers. Pure.

The vocabulary is that of the hub's `preprocessor_config.json`; every step is switched and sized by
it, and what it leaves out has the hub's own defaults.
"""

from __future__ import annotations

from dataclasses import dataclass

from pumas_server.worker.header_fault import no_model
from pumas_server.worker.onnx.description import Description, count, fraction, member

#: Pixels of a side; far above any model's, far below what would take memory.
SIDE_LIMIT = 4096
RESAMPLINGS = range(6)
BICUBIC = 3
_MEAN = (0.48145466, 0.4578275, 0.40821073)
_DEVIATION = (0.26862954, 0.26130258, 0.27577711)

Triple = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class ImageRecipe:
    """The steps, in their order; a step that is None or False is left out."""

    shortest_edge: int | None
    """Resize so that the shorter side has so many pixels."""
    size: tuple[int, int] | None
    """Resize to this height and width."""
    resampling: int
    """Pillow's number of the filter."""
    crop: tuple[int, int] | None
    """Cut this height and width out of the middle, with black around what is smaller."""
    factor: float | None
    """Multiply values of 0 to 255 by this."""
    mean: Triple | None
    deviation: Triple | None
    """Then subtract the one and divide by the other."""

    @property
    def shape(self) -> tuple[int, int] | None:
        """Height and width of every image in the end; None when they differ from image to image."""
        return self.crop or self.size


def read_image_recipe(config: Description) -> ImageRecipe:
    """The recipe. Raises `HeaderFault` for sizes and numbers that cannot be meant."""
    size = config.get("size", 224) if config.get("do_resize", True) is True else None
    shortest, whole = _size(size)
    resampling = config.get("resample", BICUBIC)
    if resampling not in RESAMPLINGS:
        raise no_model("the model's preprocessor_config.json names no resample filter")
    assert isinstance(resampling, int)
    crop = _crop(config) if config.get("do_center_crop", True) is True else None
    rescales = config.get("do_rescale", True) is True
    factor = fraction(config.get("rescale_factor", 1 / 255)) if rescales else None
    mean = deviation = None
    if config.get("do_normalize", True) is True:
        mean = _triple(config, "image_mean", _MEAN)
        deviation = _triple(config, "image_std", _DEVIATION)
        if 0.0 in deviation:
            raise no_model("the model's preprocessor_config.json has an image_std of zero")
    recipe = ImageRecipe(shortest, whole, resampling, crop, factor, mean, deviation)
    if recipe.shape is None:
        raise no_model("the model's preprocessor_config.json leaves images of different sizes")
    return recipe


def _size(value: object) -> tuple[int | None, tuple[int, int] | None]:
    if value is None:
        return None, None
    if type(value) is int:
        return _side(value), None
    if (edge := member(value, "shortest_edge")) is not None:
        return _side(edge), None
    return None, (_side(member(value, "height")), _side(member(value, "width")))


def _crop(config: Description) -> tuple[int, int]:
    value = config.get("crop_size", 224)
    if type(value) is int:
        return _side(value), _side(value)
    return _side(member(value, "height")), _side(member(value, "width"))


def _side(value: object) -> int:
    pixels = count(value)
    if not 1 <= pixels <= SIDE_LIMIT:
        raise no_model(
            "the model's preprocessor_config.json has a size that is not of"
            f" 1 to {SIDE_LIMIT} pixels"
        )
    return pixels


def _triple(config: Description, name: str, default: Triple) -> Triple:
    values = config.get(name, default)
    if isinstance(values, list | tuple) and len(values) == 3:
        red, green, blue = map(fraction, values)
        if red is not None and green is not None and blue is not None:
            return red, green, blue
    raise no_model(f"the model's preprocessor_config.json has no three numbers as {name}")
