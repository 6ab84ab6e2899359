"""How many tokens an input may be at the most, told without a tokenizer."""

from __future__ import annotations

from typing import Literal
from unicodedata import normalize

from hypothesis import given
from hypothesis import strategies as st

from pumas_server.contract.inputs import (
    ContentBatchInput,
    DecisionInput,
    RerankInput,
    TextBatchInput,
    TextInput,
)
from pumas_server.router.preflight import longest_text

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]


@given(st.text(max_size=200).map("a{}".format), st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]))
def test_no_form_of_a_text_is_longer(text: str, form: Form) -> None:
    wanted = len(normalize(form, text).encode())
    assert longest_text(TextInput(kind="text", text=text)) >= max(wanted, len(text.encode()))


def test_a_letter_that_stands_for_many() -> None:
    assert longest_text(TextInput(kind="text", text="\ufdfa")) >= 33


def test_the_longest_input_of_each_kind() -> None:
    assert longest_text(TextBatchInput(kind="text_batch", texts=["a", "bbb", "b"])) == 3
    assert longest_text(RerankInput(kind="rerank", query="qq", documents=["d", "ddd"])) == 5
    items = [{"parts": [{"kind": "text", "text": "aa"}, {"kind": "text", "text": "b"}]}]
    batch = ContentBatchInput.model_validate({"kind": "content_batch", "items": items})
    assert longest_text(batch) == 3
    question = {"type": "noul", "instructions": "a"}
    decision = {"kind": "decision", "state": "long" * 99, "questions": {"a": question}}
    assert longest_text(DecisionInput.model_validate(decision)) == 0
