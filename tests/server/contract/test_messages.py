"""Conversations: roles, content as a string or as parts, and the text of a message."""

from __future__ import annotations

from typing import Any

import pytest

from pumas_server.contract.inputs import MessagesInput
from pumas_server.contract.messages import all_parts
from pumas_server.contract.registry import parse_operation
from support.documents import (
    INPUTS,
    image_part,
    operation,
    raw,
    text_part,
    told,
    with_content,
    with_messages,
)

ROLE, ROLES = "input.messages[0].role", "system, user, assistant"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (with_messages([]), "`input.messages` needs at least 1 item"),
        (with_messages({}), "`input.messages` needs to be a list"),
        (with_messages(None), "`input.messages` needs to be a list"),
        (with_messages("hi"), "`input.messages` needs to be a list"),
        (with_messages(["hi"]), "`input.messages[0]` needs to be an object"),
        (with_messages([[]]), "`input.messages[0]` needs to be an object"),
        (with_content("hi", role="tool"), f"`{ROLE}` needs to be one of: {ROLES}"),
        (with_content("hi", role="developer"), f"`{ROLE}` needs to be one of: {ROLES}"),
        (with_content("hi", role="User"), f"`{ROLE}` needs to be one of: {ROLES}"),
        (with_messages([{"role": None, "content": "a"}]), f"`{ROLE}` needs to be one of: {ROLES}"),
        (with_content(""), "`input.messages[0].content` is blank"),
        (with_content("\t"), "`input.messages[0].content` is blank"),
        (with_content(None), "`input.messages[0].content` needs to be a string"),
        (with_content(5), "`input.messages[0].content` needs to be a string"),
        (with_content(text_part()), "`input.messages[0].content` needs to be a string"),
        (with_content([]), "`input.messages[0].content` needs at least 1 item"),
        (with_content([text_part(" ")]), "`input.messages[0].content[0].text` is blank"),
        (
            with_content([text_part(), image_part(), text_part("")]),
            "`input.messages[0].content[2].text` is blank",
        ),
    ],
)
def test_case_36_a_message_that_says_nothing_or_of_nobody(body: Any, words: str) -> None:
    assert told(body) == words


def test_messages_keep_their_order_roles_and_parts() -> None:
    parsed = operation(input=INPUTS["messages"]).input
    assert isinstance(parsed, MessagesInput)
    assert parsed.model_dump(mode="json")["messages"] == INPUTS["messages"]["messages"]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (" yes ", " yes "),
        ([text_part("hel"), text_part("lo")], "hello"),
        ([text_part("a"), image_part(), text_part(" b")], "a b"),
        ([image_part()], ""),
    ],
)
def test_the_text_of_a_message_is_joined_without_a_separator(content: Any, text: str) -> None:
    parsed = parse_operation(raw(with_content(content))).input
    assert isinstance(parsed, MessagesInput)
    assert parsed.messages[0].text() == text


def test_all_parts_are_those_of_every_message() -> None:
    parsed = operation(input=INPUTS["messages"]).input
    assert isinstance(parsed, MessagesInput)
    assert [part.kind for part in all_parts(parsed.messages)] == ["text", "image", "audio", "text"]
