"""What headers mean: the facts of the tiny models, and well-formed files that are no models."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumas_crds.facts import FileFacts
from pumas_crds.vocabulary import Reason
from pumas_server.worker.gguf_header import read_header
from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.inspection import file_facts
from support import crafted_gguf as craft
from support.crafted_gguf import Row, gguf_file

ROWS = [Row()]


def facts_of(data: bytes) -> FileFacts:
    return file_facts(read_header(data, len(data)), len(data))


def model(*metadata: bytes, rows: list[Row] = ROWS, data: int = 128) -> bytes:
    return gguf_file([*craft.MODEL, *metadata], rows, data=data)


TINY = {
    "tiny-chat": FileFacts(
        architecture="llama",
        name="tiny-chat",
        parameters=115_520,
        context_tokens=2048,
        tokenizer="gpt2",
        chat_template=True,
    ),
    "tiny-chat-no-template": FileFacts(
        architecture="llama",
        name="tiny-chat-no-template",
        parameters=115_520,
        context_tokens=2048,
        tokenizer="gpt2",
    ),
    "tiny-embed": FileFacts(
        architecture="bert",
        name="tiny-embed",
        parameters=105_664,
        context_tokens=512,
        tokenizer="bert",
        causal=False,
        pooling="mean",
    ),
    "tiny-rerank": FileFacts(
        architecture="bert",
        name="tiny-rerank",
        parameters=105_729,
        context_tokens=512,
        tokenizer="bert",
        causal=False,
        pooling="rank",
        ranking_head=True,
    ),
    "tiny-rerank-headless": FileFacts(
        architecture="bert",
        name="tiny-rerank-headless",
        parameters=105_664,
        context_tokens=512,
        tokenizer="bert",
        causal=False,
        pooling="rank",
    ),
    "tiny-decision": FileFacts(
        architecture="modern-bert",
        name="tiny-decision",
        parameters=153_537,
        context_tokens=1024,
        tokenizer="gpt2",
        causal=False,
        ranking_head=True,
        decision="laya",
    ),
}


@pytest.mark.parametrize("name", TINY)
def test_facts_of_the_tiny_models(tiny_models: Path, name: str) -> None:
    data = (tiny_models / f"{name}.gguf").read_bytes()
    common = {"size_bytes": len(data), "quantisation": "F32", "embedding_width": 64}
    assert facts_of(data) == TINY[name].model_copy(update=common)


def test_quantisation_is_the_type_of_most_weights_not_of_most_tensors() -> None:
    rows = [
        Row("a", (32,)),
        Row("b", (32,), offset=128),
        Row("c", (256, 8), type_id=12, offset=256),
    ]
    assert facts_of(model(rows=rows, data=256 + 8 * 144)).quantisation == "Q4_K"


def test_an_unknown_type_is_called_by_its_number() -> None:
    assert facts_of(model(rows=[Row(type_id=77)])).quantisation == "type-77"


@pytest.mark.parametrize(
    ("code", "word"),
    [(0, "none"), (1, "mean"), (2, "cls"), (3, "last"), (4, "rank"), (5, "unknown")],
)
def test_pooling_is_a_word(code: int, word: str) -> None:
    entry = craft.scalar("tiny.pooling_type", craft.U32, code)
    assert facts_of(model(entry)).pooling == word


def test_pooling_of_another_type_is_unknown() -> None:
    assert facts_of(model(craft.text("tiny.pooling_type", "mean"))).pooling == "unknown"


def test_unsaid_facts_have_their_defaults() -> None:
    facts = facts_of(model())
    assert (facts.causal, facts.pooling, facts.context_tokens) == (True, "", 0)
    assert (facts.name, facts.decision, facts.chat_template) == ("", "", False)


def test_numbers_that_the_engine_would_not_read_are_unsaid() -> None:
    entry = craft.scalar("tiny.context_length", craft.U64, 1 << 63)
    assert facts_of(model(entry)).context_tokens == 0


def test_a_long_chat_template_is_one_and_an_empty_one_is_none() -> None:
    long = craft.text("tokenizer.chat_template", "x" * 100_000)
    assert facts_of(model(long)).chat_template
    assert not facts_of(model(craft.text("tokenizer.chat_template", ""))).chat_template


def test_a_title_is_made_fit_for_a_status() -> None:
    title = craft.text("general.name", "a\x1b[31m\n" + "é" * 400)
    name = facts_of(model(title)).name
    assert name.startswith("a\ufffd[31m\ufffdé")
    assert len(name) == 256
    assert name.endswith("…")


@pytest.mark.parametrize(
    ("data", "reason", "words"),
    [
        (gguf_file(craft.MODEL), Reason.NOT_A_MODEL, "no weights"),
        (gguf_file(craft.MODEL[:1], ROWS, data=128), Reason.NOT_A_MODEL, "no tokenizer"),
        (gguf_file(craft.MODEL[1:], ROWS, data=128), Reason.NOT_A_MODEL, "architecture"),
        (model(craft.text("general.type", "adapter")), Reason.NOT_A_MODEL, "is adapter, not"),
        (model(craft.scalar("split.count", craft.U32, 3)), Reason.NOT_IMPLEMENTED, "3 parts"),
        (
            gguf_file(
                [craft.text("general.architecture", "x" * 129), craft.MODEL[1]], ROWS, data=128
            ),
            Reason.NOT_A_MODEL,
            "architecture",
        ),
    ],
)
def test_well_formed_files_that_are_no_models(data: bytes, reason: Reason, words: str) -> None:
    with pytest.raises(HeaderFault) as caught:
        facts_of(data)
    assert caught.value.reason is reason
    assert words in caught.value.message


def test_one_part_of_one_is_a_model() -> None:
    facts_of(model(craft.scalar("split.count", craft.U32, 1)))
    facts_of(model(craft.text("general.type", "model")))
