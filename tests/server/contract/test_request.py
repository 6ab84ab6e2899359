"""The grammar of contract v1, as a table: what is taken, what is refused, and in which words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pumas_server.contract.errors import Code, ContractError
from pumas_server.contract.inputs import MessagesInput, TextInput
from pumas_server.contract.options import TextOptions
from pumas_server.contract.registry import parse_operation
from pumas_server.contract.request import UNREAD_INPUTS, UNREAD_OPTIONS, UNREAD_PARTS, Unread
from pumas_server.contract.words import Capability, Output, SemanticTask
from support.documents import document, operation, raw, with_content, with_messages, with_options


def refused(body: Any) -> str:
    """What a caller is told who sends `body`; the fixed beginning is cut off."""
    with pytest.raises(ContractError) as caught:
        parse_operation(raw(body))
    assert caught.value.code is Code.INVALID_REQUEST
    beginning, _, rest = caught.value.message.partition("request does not match the contract: ")
    assert beginning == ""
    return rest


TEXT_INPUT = {"kind": "text", "text": "Hello"}

OUTPUTS = (
    "text, embeddings_float32, png_base64, decisions, relevance_scores, labels, pcm_s16le,"
    " pcm_f32le"
)
PART_NEEDS = "`input.messages[0].content[0]` needs a `kind`, one of: audio, image, text"
ROLE, ROLES = "input.messages[0].role", "system, user, assistant"


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


def test_null_options_are_defaults() -> None:
    parsed = parse_operation(raw(with_options(max_tokens=None, temperature=None, top_p=None)))
    assert parsed.options == TextOptions(kind="text_generation")


# Case 3: an unknown member at every level.
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (document(optoins=1), "unknown field `optoins`"),
        (document(**{"a.b": 1}), "unknown field `a.b`"),
        (document(input={**TEXT_INPUT, "extra": 1}), "unknown field `extra` in `input`"),
        (
            document(input={"kind": "text", "text": {"lost": 1}, "lost": 2}),
            "unknown field `lost` in `input`",
        ),
        (with_options(max_token=1), "unknown field `max_token` in `options`"),
        (with_options(text_generation=1), "unknown field `text_generation` in `options`"),
        (
            with_messages([{"role": "user", "content": "hi", "name": "x"}]),
            "unknown field `name` in `input.messages[0]`",
        ),
        (
            with_content([{"kind": "text", "text": "a"}, {"kind": "text", "text": "b", "q": 1}]),
            "unknown field `q` in `input.messages[0].content[1]`",
        ),
        (document(**{"x" * 100: 1}), f"unknown field `{'x' * 63}…`"),
        # The typing error is told, not what follows from it.
        (with_options(max_tokns=1, temperature=9), "unknown field `max_tokns` in `options`"),
        (document(input=..., inptu=TEXT_INPUT), "unknown field `inptu`"),
    ],
)
def test_an_unknown_field_is_named_with_its_place(body: Any, words: str) -> None:
    assert refused(body) == words


@pytest.mark.parametrize("name", ["request_id", "model", "input", "output"])
def test_a_missing_field_is_named(name: str) -> None:
    assert refused(document(**{name: ...})) == f"missing field `{name}`"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (document(input={"kind": "text"}), "missing field `input.text`"),
        (document(input={"kind": "messages"}), "missing field `input.messages`"),
        (with_messages([{"content": "hi"}]), "missing field `input.messages[0].role`"),
        (
            with_messages([{"role": "user", "content": "hi"}, {"role": "user"}]),
            "missing field `input.messages[1].content`",
        ),
        (with_content([{"kind": "text"}]), "missing field `input.messages[0].content[0].text`"),
    ],
)
def test_a_missing_field_inside_is_named(body: Any, words: str) -> None:
    assert refused(body) == words


# Cases 7, 10; notes 2.2.
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
def test_an_identity_that_cannot_be_is_refused(body: Any, words: str) -> None:
    assert refused(body) == words


@pytest.mark.parametrize(
    "model", ["x" * 256, "é" * 128, "org/model:tag", "a b", "alias@profile", "\u4e2d", "a\u00a0b"]
)
def test_identities_that_can_be(model: str) -> None:
    assert operation(model=model).model == model


# Cases 19, 29, 34 as far as they are grammar; decision 2.
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (with_options(max_tokens=0), "`options.max_tokens` needs to be at least 1"),
        (with_options(max_tokens=-1), "`options.max_tokens` needs to be at least 1"),
        (with_options(max_tokens=3.0), "`options.max_tokens` needs to be an integer"),
        (with_options(max_tokens="3"), "`options.max_tokens` needs to be an integer"),
        (with_options(max_tokens=True), "`options.max_tokens` needs to be an integer"),
        (with_options(max_tokens=[1]), "`options.max_tokens` needs to be an integer"),
        (with_options(max_tokens=2**32), "`options.max_tokens` needs to be at most 4294967295"),
        (with_options(max_tokens=10**40), "`options.max_tokens` needs to be at most 4294967295"),
        (with_options(max_tokens=-(2**63)), "`options.max_tokens` needs to be at least 1"),
        (with_options(temperature=2.1), "`options.temperature` needs to be at most 2"),
        (with_options(temperature=-0.5), "`options.temperature` needs to be at least 0"),
        (with_options(temperature="1"), "`options.temperature` needs to be a number"),
        (with_options(temperature=True), "`options.temperature` needs to be a number"),
        (with_options(temperature=10**300), "`options.temperature` needs to be at most 2"),
        (with_options(top_p=-0.1), "`options.top_p` needs to be at least 0"),
        (with_options(top_p=1.01), "`options.top_p` needs to be at most 1"),
        (with_options(top_p=[]), "`options.top_p` needs to be a number"),
        (document(stream=None), "`stream` is null; leave it out instead"),
        (document(stream="true"), "`stream` needs to be true or false"),
        (document(stream=1), "`stream` needs to be true or false"),
        (document(capability=None), "`capability` is null; leave it out instead"),
        (document(output="text "), f"`output` needs to be one of: {OUTPUTS}"),
        (document(output=None), f"`output` needs to be one of: {OUTPUTS}"),
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
def test_a_value_out_of_place_or_range_is_refused(body: Any, words: str) -> None:
    assert refused(body) == words


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"max_tokens": 1}, {"max_tokens": 1}),
        ({"max_tokens": 2**32 - 1}, {"max_tokens": 2**32 - 1}),
        ({"temperature": 0, "top_p": 1}, {"temperature": 0.0, "top_p": 1.0}),
        ({"temperature": 2.0, "top_p": 0.0}, {"temperature": 2.0, "top_p": 0.0}),
    ],
)
def test_the_ends_of_the_ranges_and_integers_for_numbers(
    members: dict[str, Any], expected: dict[str, Any]
) -> None:
    options = parse_operation(raw(with_options(**members))).options
    assert isinstance(options, TextOptions)
    assert options.model_dump(exclude_none=True, exclude={"kind"}) == expected


# Case 36; notes 2.4 for the kinds text and messages.
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (document(input={"kind": "text", "text": ""}), "`input.text` is blank"),
        (document(input={"kind": "text", "text": " \n\u00a0"}), "`input.text` is blank"),
        (document(input={"kind": "text", "text": None}), "`input.text` needs to be a string"),
        (document(input={"kind": "text", "text": ["a"]}), "`input.text` needs to be a string"),
        (with_messages([]), "`input.messages` needs at least 1 item"),
        (with_messages({}), "`input.messages` needs to be a list"),
        (with_messages(None), "`input.messages` needs to be a list"),
        (with_messages(["hi"]), "`input.messages[0]` needs to be an object"),
        (with_content("hi", role="tool"), f"`{ROLE}` needs to be one of: {ROLES}"),
        (with_content("hi", role="User"), f"`{ROLE}` needs to be one of: {ROLES}"),
        (with_content(""), "`input.messages[0].content` is blank"),
        (with_content("\t"), "`input.messages[0].content` is blank"),
        (with_content(None), "`input.messages[0].content` needs to be a string"),
        (
            with_content({"kind": "text", "text": "a"}),
            "`input.messages[0].content` needs to be a string",
        ),
        (with_content([]), "`input.messages[0].content` needs at least 1 item"),
        (
            with_content([{"kind": "text", "text": " "}]),
            "`input.messages[0].content[0].text` is blank",
        ),
        (with_content(["hi"]), PART_NEEDS),
        (with_content([{"text": "a"}]), PART_NEEDS),
        (with_content([{"kind": "video"}]), PART_NEEDS),
        (with_content([{"kind": 5}]), PART_NEEDS),
        # The type of OpenAI's parts is not ours.
        (with_content([{"type": "text", "text": "a"}]), PART_NEEDS),
    ],
)
def test_an_input_that_says_nothing_is_refused(body: Any, words: str) -> None:
    assert refused(body) == words


@pytest.mark.parametrize("value", [None, [], "text", 5, {}, {"kind": "nope"}, {"kind": None}])
@pytest.mark.parametrize("name", ["input", "options"])
def test_a_tagged_record_needs_a_known_kind(name: str, value: Any) -> None:
    if name == "options" and value is None:
        assert operation(options=None).options is None
        return
    read = {"input": {"text", "messages"} | UNREAD_INPUTS}
    read["options"] = {"text_generation"} | UNREAD_OPTIONS
    kinds = ", ".join(sorted(read[name]))
    assert refused(document(**{name: value})) == f"`{name}` needs a `kind`, one of: {kinds}"


def test_messages_keep_their_order_roles_and_parts() -> None:
    messages = [
        {"role": "system", "content": "be short"},
        {
            "role": "user",
            "content": [{"kind": "text", "text": "hel"}, {"kind": "text", "text": "lo"}],
        },
        {"role": "assistant", "content": " yes "},
    ]
    parsed = parse_operation(raw(with_messages(messages))).input
    assert isinstance(parsed, MessagesInput)
    assert parsed.model_dump(mode="json")["messages"] == messages


# Known words of later releases: their inside is not read.
@pytest.mark.parametrize("kind", sorted(UNREAD_INPUTS))
def test_an_input_of_a_later_kind_is_known_and_unread(kind: str) -> None:
    assert kind in {
        "text_batch", "image_messages", "image", "content_batch", "decision", "rerank", "audio",
    }  # fmt: skip
    parsed = operation(input={"kind": kind, "anything": [{"at": "all"}], "text": None})
    assert parsed.input == Unread(kind=kind)


@pytest.mark.parametrize("kind", sorted(UNREAD_PARTS))
def test_a_media_part_is_known_and_unread(kind: str) -> None:
    parsed = parse_operation(raw(with_content([{"kind": kind, "data_base64": 7}])))
    assert isinstance(parsed.input, MessagesInput)
    assert parsed.input.messages[0].content == [Unread(kind=kind)]


@pytest.mark.parametrize("kind", sorted(UNREAD_OPTIONS))
def test_options_of_a_later_kind_are_known_and_unread(kind: str) -> None:
    assert operation(options={"kind": kind, "top_n": "three"}).options == Unread(kind=kind)


@pytest.mark.parametrize("output", list(Output))
def test_every_output_is_known(output: Output) -> None:
    assert operation(output=output.value).output is output


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


def test_very_many_faults_cost_no_more_than_the_first() -> None:
    # One finding per bad item or unknown field would be gigabytes for a body of 32 MiB.
    fields = document(**{f"x{n}": n for n in range(50_000)})
    assert refused(fields) == "unknown field `x0`"
    assert refused(with_messages([1] * 50_000)) == "`input.messages[0]` needs to be an object"
    parts = with_content([{"kind": "text", "text": ""}] * 50_000)
    assert refused(parts) == "`input.messages[0].content[0].text` is blank"


def test_no_value_of_the_callers_is_in_a_sentence() -> None:
    for body in (document(capability="hunter2-is-my-secret"), with_options(max_tokens="hunter2")):
        assert "hunter2" not in refused(json.loads(json.dumps(body)))
