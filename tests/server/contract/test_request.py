"""The envelope of a request, as a table: what is taken, what is refused, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from pumas_server.contract.inputs import TextInput
from pumas_server.contract.options import ImageOptions, TextOptions
from pumas_server.contract.registry import parse_operation
from pumas_server.contract.request import Operation
from pumas_server.contract.words import Capability, Output, SemanticTask
from support.documents import (
    INPUTS,
    OPTIONS,
    document,
    of_no_kind,
    operation,
    raw,
    refused,
    told,
    with_input,
    with_options,
)

TEXT_INPUT = {"kind": "text", "text": "Hello"}

OUTPUTS = (
    "text, embeddings_float32, png_base64, decisions, relevance_scores, labels, pcm_s16le,"
    " pcm_f32le"
)
NO_IMAGE_OPTIONS = "the body needs `options` with width and height for an image"


def test_the_example_of_the_document_is_taken() -> None:
    parsed = operation(
        request_id="example:1",
        model="served-alias",
        profile="optional-exact-profile",
        capability="text_generation",
        input=TEXT_INPUT,
        options={"kind": "text_generation", "max_tokens": 32},
        stream=False,
    )
    assert parsed.request_id == "example:1"
    assert (parsed.model, parsed.profile) == ("served-alias", "optional-exact-profile")
    assert parsed.capability is Capability.TEXT_GENERATION
    assert parsed.input == TextInput(kind="text", text="Hello")
    assert parsed.output is Output.TEXT
    assert parsed.options == TextOptions(kind="text_generation", max_tokens=32)
    assert parsed.stream is False


@pytest.mark.parametrize("kind", sorted(INPUTS))
def test_the_grammar_takes_every_input_with_any_options(kind: str) -> None:
    # Whether they go together is asked where the capability is known.
    for options in OPTIONS:
        parsed = operation(input=INPUTS[kind], options=OPTIONS[options])
        assert parsed.input.kind == kind
        assert parsed.options is not None
        assert parsed.options.kind == options


def test_optional_members_may_be_left_out() -> None:
    parsed = operation(capability=..., options=...)
    assert parsed.profile is None
    assert parsed.capability is None
    assert parsed.semantic_task is None
    assert parsed.options is None
    assert parsed.stream is None


@pytest.mark.parametrize("name", ["profile", "semantic_task", "options"])
def test_null_is_absence_where_nothing_else_can_be_meant(name: str) -> None:
    assert getattr(operation(**{name: None}), name) is None


@pytest.mark.parametrize("name", ["capability", "stream"])
def test_decision_2_null_is_refused_where_something_else_could_be_meant(name: str) -> None:
    assert refused(document(**{name: None})) == f"`{name}` is null; leave it out instead"


@pytest.mark.parametrize("name", ["request_id", "model", "input", "output"])
def test_a_missing_field_is_named(name: str) -> None:
    assert refused(document(**{name: ...})) == f"missing field `{name}`"


# The words for identities; notes 2.2.
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (document(request_id=7), "`request_id` needs to be a string"),
        (document(request_id=None), "`request_id` needs to be a string"),
        (document(request_id=" "), "`request_id` needs to match [A-Za-z0-9._:-]{1,128}"),
        (document(request_id="a b"), "`request_id` needs to match [A-Za-z0-9._:-]{1,128}"),
        (document(request_id="x" * 129), "`request_id` needs to match [A-Za-z0-9._:-]{1,128}"),
        (document(request_id="r1\n"), "`request_id` needs to match [A-Za-z0-9._:-]{1,128}"),
        (document(model=7), "`model` needs to be a string"),
        (document(model=None), "`model` needs to be a string"),
        (document(model=""), "`model` is empty or has surrounding blanks"),
        (document(model="  "), "`model` is empty or has surrounding blanks"),
        (document(model=" llm"), "`model` is empty or has surrounding blanks"),
        (document(model="llm\n"), "`model` is empty or has surrounding blanks"),
        (document(model="\u00a0llm"), "`model` is empty or has surrounding blanks"),
        (document(model="x" * 257), "`model` is 257 bytes; at most 256 are allowed"),
        (document(model="é" * 129), "`model` is 258 bytes; at most 256 are allowed"),
        (document(model="a\u0007b"), "`model` holds control characters"),
        (document(model="a\u007fb"), "`model` holds control characters"),
        (document(model="a\u0085b"), "`model` holds control characters"),
        (document(model="a\u009fb"), "`model` holds control characters"),
        (document(profile=""), "`profile` needs to match [A-Za-z0-9._-]{1,128}"),
        (document(profile=" p1"), "`profile` needs to match [A-Za-z0-9._-]{1,128}"),
        (document(profile="p1\n"), "`profile` needs to match [A-Za-z0-9._-]{1,128}"),
        (document(profile="a:b"), "`profile` needs to match [A-Za-z0-9._-]{1,128}"),
        (document(profile="x" * 129), "`profile` needs to match [A-Za-z0-9._-]{1,128}"),
        (document(profile=1), "`profile` needs to be a string"),
    ],
)
def test_cases_7_and_10_an_identity_that_cannot_be_is_refused(body: Any, words: str) -> None:
    assert refused(body) == words


@pytest.mark.parametrize(
    "model", ["x" * 256, "é" * 128, "org/model:tag", "a b", "alias@profile", "\u4e2d", "a\u00a0b"]
)
def test_identities_that_can_be(model: str) -> None:
    assert operation(model=model).model == model


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (document(stream="true"), "`stream` needs to be true or false"),
        (document(stream=1), "`stream` needs to be true or false"),
        (document(stream=[]), "`stream` needs to be true or false"),
        (document(output="text "), f"`output` needs to be one of: {OUTPUTS}"),
        (document(output=None), f"`output` needs to be one of: {OUTPUTS}"),
        (document(output=5), f"`output` needs to be one of: {OUTPUTS}"),
        (document(output={}), f"`output` needs to be one of: {OUTPUTS}"),
        (
            document(capability="chat"),
            f"`capability` needs to be one of: {', '.join(Capability)}",
        ),
        (
            document(capability=[]),
            f"`capability` needs to be one of: {', '.join(Capability)}",
        ),
        (
            document(semantic_task="image_generation"),
            f"`semantic_task` needs to be one of: {', '.join(SemanticTask)}",
        ),
    ],
)
def test_a_word_that_is_none_of_the_contracts_is_refused(body: Any, words: str) -> None:
    assert told(body) == words


@pytest.mark.parametrize("value", [None, [], "text", 5, {}, {"kind": "nope"}, {"kind": None}])
@pytest.mark.parametrize(("name", "kinds"), [("input", INPUTS), ("options", OPTIONS)])
def test_a_tagged_record_needs_a_known_kind(name: str, kinds: dict[str, Any], value: Any) -> None:
    if name == "options" and value is None:
        assert operation(options=None).options is None
        return
    known = ", ".join(sorted(kinds))
    assert told(document(**{name: value})) == of_no_kind(name, "kind", known, value)


# Decision 3: before any model is looked at.
@pytest.mark.parametrize(
    "changes",
    [
        {"output": "png_base64", "options": ...},
        {"output": "png_base64", "options": None},
        {"output": "png_base64", "options": ..., "capability": ...},
        {"output": "png_base64", "options": ..., "semantic_task": "text_to_image"},
        {"output": "png_base64", "options": ..., "capability": "image_generation"},
        {"output": "text", "options": ..., "capability": "image_generation"},
    ],
)
def test_case_59_an_image_needs_options(changes: dict[str, Any]) -> None:
    assert refused(document(input=TEXT_INPUT, **changes)) == NO_IMAGE_OPTIONS


def test_case_59_a_prompt_that_says_nothing() -> None:
    body = with_input("text", text=" \n") | {
        "output": "png_base64",
        "capability": "image_generation",
        "options": OPTIONS["image_generation"],
    }
    assert refused(body) == "`input.text` is blank"


def test_an_image_with_its_options_is_grammar() -> None:
    parsed = operation(
        input=TEXT_INPUT,
        output="png_base64",
        capability="image_generation",
        options=OPTIONS["image_generation"],
    )
    assert parsed.options == ImageOptions(kind="image_generation", width=16, height=12, seed=7)


@pytest.mark.parametrize("output", list(Output))
def test_every_output_is_known(output: Output) -> None:
    options = OPTIONS["image_generation"]
    assert operation(output=output.value, options=options).output is output


@pytest.mark.parametrize("task", list(SemanticTask))
def test_every_semantic_task_is_known(task: SemanticTask) -> None:
    assert operation(semantic_task=task.value).semantic_task is task


def test_the_order_of_the_capabilities_is_the_contracts() -> None:
    assert list(Capability) == [
        "chat_generation",
        "text_generation",
        "text_embedding",
        "image_generation",
        "audio_transcription",
        "audio_classification",
        "image_to_text",
        "multimodal_embedding",
        "decision",
        "rerank",
    ]


def test_operations_cannot_be_changed() -> None:
    parsed = operation()
    with pytest.raises(ValueError, match="frozen"):
        parsed.model = "other"


@pytest.mark.parametrize(
    "body",
    [
        with_options(max_tokens="hunter2"),
        with_input("image", data_base64=["hunter2"]),
        with_input("rerank", documents="hunter2"),
        with_input("text", text=["hunter2"]),
        document(request_id="hunter2 "),
    ],
)
def test_no_free_value_of_the_callers_is_in_a_sentence(body: Any) -> None:
    assert "hunter2" not in refused(body)


@pytest.mark.parametrize(
    ("body", "ending"),
    [
        (document(output="txt"), "; it is `txt`"),
        (document(capability="x" * 1_000), f"; it is `{'x' * 63}…`"),
        (document(output="a\nb"), "; it is `a?b`"),
        (document(output=True), "; it is `true`"),
        (document(output=None), "; it is `null`"),
        (document(output=["text"]), "pcm_f32le"),
        (document(output="token=hunter2"), "; it is `[redacted]"),
        (document(input={"kind": "txt"}), "; it is `txt`"),
        (with_options(temperature=5), "`options.temperature` needs to be at most 2; it is `5`"),
        (with_input("decision", questions={"q": {"type": "bool"}}), "score; it is `bool`"),
    ],
)
def test_a_value_that_is_not_among_the_allowed_ones_is_named(body: Any, ending: str) -> None:
    assert refused(body).endswith(ending)


def test_a_whole_body_is_parsed_alike() -> None:
    assert parse_operation(raw(document())) == operation()


@pytest.mark.parametrize("name", ["capability", "stream"])
def test_decision_2_the_schema_knows_no_null_either(name: str) -> None:
    member = Operation.model_json_schema()["properties"][name]
    assert {key: member.get(key) for key in ("type", "$ref")} == {
        "capability": {"type": None, "$ref": "#/$defs/Capability"},
        "stream": {"type": "boolean", "$ref": None},
    }[name]
