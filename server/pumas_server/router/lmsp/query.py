"""The query of the list: which models are asked for. Pure.

Parameters that are unknown are ignored, so that newer clients keep working; a capability that is
unknown is one that no model has. Values are judged as they are written: case counts, commas have
no meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl

from pumas_server.contract.strict_json import quoted
from pumas_server.router.lmsp.problems import ProblemCode, ProblemError

CAPABILITIES = (
    "chat",
    "completion",
    "embeddings",
    "tools",
    "vision",
    "structured_output",
    "streaming",
)
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Selection:
    """A filter of the list. Equal filters are equal values, and there are not many of them."""

    capabilities: frozenset[str] = frozenset()
    """A model must have all of these."""
    ready_only: bool = False
    nothing: bool = False
    """A capability is asked for that no model has."""


EVERYTHING = Selection()
_NOTHING = Selection(nothing=True)


def read_query(raw: bytes) -> Selection:
    """The selection of a query string. Raises `ProblemError` (400)."""
    pairs = parse_qsl(raw.decode("latin-1"), keep_blank_values=True)
    asked = [value for name, value in pairs if name == "capability"]
    if "" in asked:
        raise _invalid("capability", "the parameter `capability` is empty")
    ready = _read_ready_only([value for name, value in pairs if name == "ready_only"])
    capabilities = frozenset(asked)
    if not capabilities.issubset(CAPABILITIES):
        return _NOTHING
    return Selection(capabilities, ready)


def _read_ready_only(values: list[str]) -> bool:
    if len(values) > 1:
        raise _invalid("ready_only", "the parameter `ready_only` is repeated")
    text = values[0] if values else "false"
    if text not in _BOOLEANS:
        raise _invalid("ready_only", f"`ready_only` is `true` or `false`, and not {quoted(text)}")
    return _BOOLEANS[text]


def _invalid(param: str, detail: str) -> ProblemError:
    return ProblemError(ProblemCode.INVALID_REQUEST, detail, param=param)
