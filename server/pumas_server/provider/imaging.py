"""Projection of a generated image: one PNG of the size that was asked for, and its seed."""

from __future__ import annotations

from pumas_server.contract.bounds import U32_MAX
from pumas_server.contract.options import ImageOptions
from pumas_server.contract.redaction import redact_foreign
from pumas_server.contract.results import ImageResult
from pumas_server.media.generated import NotValid, check_generated
from pumas_server.provider.answers import incoherent, is_index, read_answer


def project_image(raw: bytes, options: ImageOptions) -> ImageResult:
    """The one image of an answer. Raises `ContractError`.

    The PNG passes the checks that a caller's own would have to, and is as large as was asked for.
    A provider that has nothing to show may say why as `problem`.
    """
    answer = read_answer(raw)
    data = answer.get("data")
    if not isinstance(data, list) or len(data) != 1 or not isinstance(data[0], dict):
        incoherent("did not give exactly one image")
    text = data[0].get("b64_json")
    if not isinstance(text, str):
        problem = answer.get("problem")
        why = f": {redact_foreign(problem)}" if isinstance(problem, str) else ""
        incoherent(f"gave no image{why}")
    seed = answer.get("seed", options.seed)
    if not is_index(seed) or not 0 <= seed <= U32_MAX:
        incoherent("does not tell the seed of its image")
    if options.seed is not None and seed != options.seed:
        incoherent("made its image of another seed than the one asked for")
    try:
        width, height = check_generated(text)
    except NotValid as fault:
        incoherent(f"gave an image that is not valid: it {fault}")
    if (width, height) != (options.width, options.height):
        wanted = f"{options.width}x{options.height}"
        incoherent(f"gave an image of {width}x{height} instead of {wanted}")
    return ImageResult(text, seed)
