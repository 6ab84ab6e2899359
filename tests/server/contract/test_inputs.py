"""Inputs of each kind: their shape, and what each amounts to in the words of the table."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pumas_server.contract.errors import ContractError
from pumas_server.contract.inputs import DecisionInput
from pumas_server.contract.registry import parse_operation
from support.documents import (
    INPUTS,
    audio_part,
    clip,
    image,
    image_part,
    operation,
    raw,
    refused,
    text_part,
    told,
    with_input,
)


@pytest.mark.parametrize("kind", sorted(INPUTS))
def test_an_input_keeps_all_it_says(kind: str) -> None:
    dumped = operation(input=INPUTS[kind]).input.model_dump(mode="json", exclude_unset=True)
    assert dumped == INPUTS[kind]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (with_input("text", text=""), "`input.text` is blank"),
        (with_input("text", text=" \n\u00a0"), "`input.text` is blank"),
        (with_input("text", text=None), "`input.text` needs to be a string"),
        (with_input("text", text=["a"]), "`input.text` needs to be a string"),
        (with_input("text_batch", texts=[]), "`input.texts` needs at least 1 item"),
        (with_input("text_batch", texts="a"), "`input.texts` needs to be a list"),
        (with_input("text_batch", texts=None), "`input.texts` needs to be a list"),
        (with_input("text_batch", texts=["a", " "]), "`input.texts[1]` is blank"),
        (with_input("text_batch", texts=["a", 5]), "`input.texts[1]` needs to be a string"),
        (with_input("text_batch", texts=["a", None]), "`input.texts[1]` needs to be a string"),
        (with_input("content_batch", items=[]), "`input.items` needs at least 1 item"),
        (with_input("content_batch", items=["a"]), "`input.items[0]` needs to be an object"),
        (
            with_input("content_batch", items=[{"parts": []}]),
            "`input.items[0].parts` needs at least 1 item",
        ),
        (
            with_input("content_batch", items=[{"parts": "a"}]),
            "`input.items[0].parts` needs to be a list",
        ),
        (
            with_input("content_batch", items=[{"parts": [text_part()]}, {"parts": [{}]}]),
            "`input.items[1].parts[0]` needs a `kind`, one of: audio, image, text",
        ),
        (
            with_input("content_batch", items=[{"parts": [text_part("")]}]),
            "`input.items[0].parts[0].text` is blank",
        ),
        (with_input("decision", images=["a"]), "`input.images[0]` needs to be an object"),
        (with_input("decision", images={}), "`input.images` needs to be a list"),
        (
            with_input("decision", audio=[image()]),
            "`input.audio[0].encoding` needs to be one of: pcm_s16le, pcm_f32le",
        ),
        (with_input("decision", audio="a"), "`input.audio` needs to be a list"),
        # Media of a decision have no kind.
        (
            with_input("decision", images=[image_part()]),
            "unknown field `kind` in `input.images[0]`",
        ),
        (with_input("decision", audio=[audio_part()]), "unknown field `kind` in `input.audio[0]`"),
        (with_input("decision", state=...), "missing field `input.state`"),
    ],
)
def test_an_input_that_is_not_well_formed(body: Any, words: str) -> None:
    assert told(body) == words


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"query": ""}, "`input.query` is blank"),
        ({"query": " \t"}, "`input.query` is blank"),
        ({"query": None}, "`input.query` needs to be a string"),
        ({"query": ["a"]}, "`input.query` needs to be a string"),
        ({"documents": ["a", " "]}, "`input.documents[1]` is blank"),
        ({"documents": [""]}, "`input.documents[0]` is blank"),
        ({"documents": []}, "`input.documents` needs at least 1 item"),
        ({"documents": "a"}, "`input.documents` needs to be a list"),
        ({"documents": None}, "`input.documents` needs to be a list"),
        # The Jina and Cohere forms are for the route that is passed through.
        ({"documents": [{"text": "a"}]}, "`input.documents[0]` needs to be a string"),
        ({"top_n": 2}, "unknown field `top_n` in `input`"),
    ],
)
def test_case_87_a_rerank_that_says_nothing(changes: dict[str, Any], words: str) -> None:
    assert refused(with_input("rerank", **changes)) == words


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "content": "look"}],
        [{"role": "user", "content": [text_part()]}],
        [{"role": "user", "content": [audio_part()]}],
        [{"role": "system", "content": "be short"}, {"role": "assistant", "content": "yes"}],
    ],
)
def test_case_46_image_messages_without_an_image(messages: Any) -> None:
    body = with_input("image_messages", messages=messages)
    assert refused(body) == "`input` of kind image_messages holds no image"


def test_case_46_an_image_in_image_messages_is_a_users() -> None:
    body = with_input("image_messages", messages=[{"role": "system", "content": [image_part()]}])
    assert "only user messages may have it" in refused(body)


# "A string or any JSON value": null is one.
@pytest.mark.parametrize(
    "state", ["", "text", None, True, 0, -1.5, 10**300, [], {}, [[None]], {"state": {"a": [1]}}]
)
def test_the_state_of_a_decision_is_any_json_value(state: Any) -> None:
    parsed = operation(**with_input("decision", state=state)).input
    assert isinstance(parsed, DecisionInput)
    assert parsed.state == state
    assert type(parsed.state) is type(state)


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 400, "NaN", "Infinity"])
def test_a_state_holds_no_number_that_is_none(number: str) -> None:
    body = raw(with_input("decision", state=["here"])).replace(b'"here"', number.encode())
    with pytest.raises(ContractError, match=r"too large|is no JSON number"):
        parse_operation(body)


@pytest.mark.parametrize("name", ["images", "audio"])
@pytest.mark.parametrize("value", [None, []])
def test_a_decision_may_be_without_media(name: str, value: Any) -> None:
    parsed = operation(**with_input("decision", images=..., audio=...) | {}).input
    assert parsed.modalities() == {"text"}
    both = with_input("decision", images=[image()], audio=[clip()])
    both["input"][name] = value
    other = {"images": "audio", "audio": "image"}[name]
    assert operation(**both).input.modalities() == {"text", other}


SEEN, HEARD = [image_part(), text_part()], [audio_part()]


def turn(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


@pytest.mark.parametrize(
    ("wanted", "format_", "modalities"),
    [
        (INPUTS["text"], "text", "text"),
        (INPUTS["text_batch"], "text_batch", "text"),
        ({"kind": "messages", "messages": [{"role": "user", "content": "hi"}]},
         "messages_text", "text"),
        ({"kind": "messages", "messages": [turn(text_part())]}, "messages_text", "text"),
        ({"kind": "messages", "messages": [turn(*SEEN)]}, "messages_image", "image text"),
        ({"kind": "messages", "messages": [turn(image_part())]}, "messages_image", "image text"),
        ({"kind": "messages", "messages": [turn(*HEARD)]}, "messages_audio", "audio text"),
        # Any audio part makes it a conversation with audio.
        ({"kind": "messages", "messages": [turn(*SEEN), turn(*HEARD)]},
         "messages_audio", "audio image text"),
        ({"kind": "image_messages", "messages": [turn(*SEEN)]}, "messages_image", "image text"),
        ({"kind": "image_messages", "messages": [turn(*SEEN, *HEARD)]},
         "messages_audio", "audio image text"),
        (image_part(), "png_base64", "image"),
        (image_part(encoding="jpeg"), "jpeg_base64", "image"),
        ({"kind": "content_batch", "items": [{"parts": [text_part()]}]}, "content_batch", "text"),
        ({"kind": "content_batch", "items": [{"parts": [image_part()]}]}, "content_batch", "image"),
        (INPUTS["content_batch"], "content_batch", "audio image text"),
        (INPUTS["decision"], "decision", "audio image text"),
        (INPUTS["rerank"], "rerank", "text"),
        (audio_part(), "pcm_s16le", "audio"),
        ({"kind": "audio", **clip("pcm_f32le")}, "pcm_f32le", "audio"),
    ],
)  # fmt: skip
def test_what_an_input_amounts_to(wanted: Any, format_: str, modalities: str) -> None:
    parsed = parse_operation(json.dumps({**with_input("text"), "input": wanted}).encode()).input
    assert parsed.format() == format_
    assert " ".join(sorted(parsed.modalities())) == modalities


@pytest.mark.parametrize(
    ("kind", "changes", "measures"),
    [
        ("text", {"text": "héllo"}, {"input_count": 1, "input_characters": 5}),
        # Characters are code points, and every one counts, also those that a caller trims.
        ("text", {"text": " 𝄞\n"}, {"input_count": 1, "input_characters": 3}),
        ("text_batch", {"texts": ["ab", "c"]}, {"input_count": 2, "input_characters": 3}),
        ("rerank", {"query": "ab", "documents": ["c", "de", "f"]},
         {"input_count": 3, "input_characters": 6}),
        ("content_batch", {"items": [{"parts": [text_part("ab"), image_part(), text_part("c")]},
                                     {"parts": [audio_part()]}]},
         {"input_count": 2, "input_characters": 3}),
        ("image", {}, {"input_count": 1}),
        ("messages", {}, {}),
        ("decision", {}, {}),
        ("audio", {}, {}),
    ],
)  # fmt: skip
def test_its_measures_have_the_names_of_bounds(
    kind: str, changes: dict[str, Any], measures: dict[str, int]
) -> None:
    assert operation(input={**INPUTS[kind], **changes}).input.measures() == measures
