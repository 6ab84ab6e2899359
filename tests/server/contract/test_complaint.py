"""Findings become sentences of ours."""

from __future__ import annotations

from datetime import date
from typing import Annotated

import pytest
from pydantic import AfterValidator, BaseModel, Field, ValidationError

from pumas_server.contract.complaint import Complaint, explain


def _complain(value: str) -> str:
    raise Complaint("holds {braces} and {0}")


class Specimen(BaseModel):
    braces: Annotated[str, AfterValidator(_complain)] | None = None
    share: Annotated[float, Field(le=0.5)] = 0
    day: date = date(2000, 1, 1)


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({"braces": "x"}, "`braces` holds {braces} and {0}"),
        ({"share": 0.75}, "`share` needs to be at most 0.5; it is `0.75`"),
        # A finding that has no words here still names the field.
        ({"day": "no day"}, "`day` is not valid"),
    ],
)
def test_a_finding_is_told_in_our_words(document: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Specimen.model_validate(document)
    assert explain(caught.value) == sentence
