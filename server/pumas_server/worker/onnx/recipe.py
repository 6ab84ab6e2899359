"""How a model's own files say that token vectors become an embedding. Pure.

A sentence embedder is published as a chain of modules: a transformer, a pooling, and what comes
after it. The chain is followed as far as this engine computes it; a link that it does not compute
is refused by its name, since vectors without it would be wrong, not worse. Prompts that a config
may hold are never put before a text: who calls decides what the text is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pumas_server.worker.header_fault import no_model
from pumas_server.worker.legible import legible
from pumas_server.worker.onnx.description import Description, member, text
from pumas_server.worker.onnx.tensor import is_plain_name

MODULES_LIMIT = 16
POOLING_FOLDER = "1_Pooling"
SHOWN = 80


class Pooling(StrEnum):
    """What becomes of the vectors of a text's tokens."""

    MEAN = "mean"
    CLS = "cls"
    LAST = "last"


_MODES = {
    "pooling_mode_mean_tokens": Pooling.MEAN,
    "pooling_mode_cls_token": Pooling.CLS,
    "pooling_mode_lasttoken": Pooling.LAST,
}
_WORDS = {"mean": Pooling.MEAN, "cls": Pooling.CLS, "lasttoken": Pooling.LAST}
_MODE_PREFIX = "pooling_mode_"


@dataclass(frozen=True, slots=True)
class Modules:
    """The folders of a chain's modules, relative to the model's root."""

    pooling: str | None = None
    layer_norm: str | None = None
    """None: the chain has none."""


#: What there is without a description of the chain: a pooling in its usual place, perhaps.
UNSAID = Modules(pooling=POOLING_FOLDER)


def read_modules(value: object) -> Modules:
    """The modules of a `modules.json`. Raises `HeaderFault`, naming a module it cannot follow."""
    if not isinstance(value, list) or not value or len(value) > MODULES_LIMIT:
        raise no_model(f"the model's modules.json is no list of 1 to {MODULES_LIMIT} modules")
    pooling = layer_norm = None
    for position, module in enumerate(value):
        kind = text(member(module, "type")).rpartition(".")[2]
        folder = text(member(module, "path"))
        match kind:
            case "Transformer" if position == 0 and not folder:
                continue
            case "Pooling" if position == 1:
                pooling = _checked(folder)
            case "LayerNorm" if position == 2:
                layer_norm = _checked(folder)
            case "Normalize" if position == len(value) - 1 and pooling is not None:
                continue  # every embedding has unit length in the end
            case _:
                raise no_model(
                    f"module {position} of the model is {legible(kind, SHOWN) or 'unnamed'},"
                    " which this engine does not compute there"
                )
    return Modules(pooling, layer_norm)


def read_pooling(config: Description) -> Pooling:
    """The pooling of a pooling module's config. Raises `HeaderFault`, naming another one."""
    word = config.get("pooling_mode")
    if isinstance(word, str):
        if word not in _WORDS:
            raise no_model(f"the model's pooling is {legible(word, SHOWN)}; {_KNOWN}")
        return _WORDS[word]
    modes = [mode for mode, on in config.items() if mode.startswith(_MODE_PREFIX) and on is True]
    if not modes:
        raise no_model("the model's pooling config chooses no pooling")
    if len(modes) > 1 or modes[0] not in _MODES:
        told = ", ".join(legible(mode, SHOWN) for mode in modes[:4])
        raise no_model(f"the model's pooling is {told}; {_KNOWN}")
    return _MODES[modes[0]]


_KNOWN = "one of mean, cls and last token is supported"


def _checked(folder: str) -> str:
    if not is_plain_name(folder):
        raise no_model(f"a module lies at {legible(folder, SHOWN)!r}, outside the model's folder")
    return folder
