"""Questions of a decision: choice, score, noul (*Endpoints*, decision input)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Tag

from pumas_server.contract.complaint import tag
from pumas_server.contract.records import Strict, Text, by_kind


class Choice(Strict):
    """Which of several options."""

    type: Literal["choice"]
    instructions: Text
    criteria: Annotated[dict[str, str | None], Field(min_length=1, fail_fast=True)]
    """Option to description, or null."""


class Score(Strict):
    """How much, on levels from the lowest to the highest."""

    type: Literal["score"]
    instructions: Text
    criteria: Annotated[list[str], Field(min_length=2, fail_fast=True)]


class NoulCriteria(Strict):
    """What true and false mean."""

    true: str | None = None
    false: str | None = None


class Noul(Strict):
    """Whether something is so."""

    type: Literal["noul"]
    instructions: Text
    criteria: NoulCriteria | None = None


Question = Annotated[
    Annotated[Choice, Tag(tag("choice"))]
    | Annotated[Score, Tag(tag("score"))]
    | Annotated[Noul, Tag(tag("noul"))],
    by_kind("choice", "score", "noul", member="type"),
]
