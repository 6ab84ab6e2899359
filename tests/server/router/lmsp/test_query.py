"""The list's query, as a table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_server.router.lmsp.problems import ProblemCode, ProblemError
from pumas_server.router.lmsp.query import CAPABILITIES, EVERYTHING, Selection, read_query

NOTHING = Selection(nothing=True)


@pytest.mark.parametrize(
    ("query", "selection"),
    [
        (b"", EVERYTHING),
        (b"ready_only=false", EVERYTHING),
        (b"ready_only=true", Selection(ready_only=True)),
        (b"capability=chat", Selection(frozenset({"chat"}))),
        (b"capability=chat&capability=tools", Selection(frozenset({"chat", "tools"}))),
        (b"capability=tools&capability=chat", Selection(frozenset({"chat", "tools"}))),
        (b"capability=chat&ready_only=true", Selection(frozenset({"chat"}), ready_only=True)),
        (b"capability=chat&capability=telepathy", NOTHING),
        (b"capability=chat,tools", NOTHING),
        (b"capability=CHAT", NOTHING),
        (b"capability=chat+", NOTHING),
        (b"capability=%63hat", Selection(frozenset({"chat"}))),
        (b"capability=%FF", NOTHING),
        (b"capability=%zz", NOTHING),
        (b"cursor=x&limit=&capability=chat", Selection(frozenset({"chat"}))),
        (b"READY_ONLY=banana", EVERYTHING),
        (b"%zz=1&\xff=2", EVERYTHING),
    ],
)
def test_queries(query: bytes, selection: Selection) -> None:
    assert read_query(query) == selection


@pytest.mark.parametrize(
    ("query", "param"),
    [
        (b"capability=", "capability"),
        (b"capability", "capability"),
        (b"capability=chat&capability=", "capability"),
        (b"capability=telepathy&ready_only=1", "ready_only"),
        (b"ready_only=1", "ready_only"),
        (b"ready_only=True", "ready_only"),
        (b"ready_only=true+", "ready_only"),
        (b"ready_only", "ready_only"),
        (b"ready_only=true&ready_only=true", "ready_only"),
    ],
)
def test_queries_that_are_refused(query: bytes, param: str) -> None:
    with pytest.raises(ProblemError) as refused:
        read_query(query)
    assert refused.value.code is ProblemCode.INVALID_REQUEST
    assert refused.value.param == param


@given(st.lists(st.text(st.characters(codec="ascii", exclude_characters="&=%+;"), min_size=1)))
def test_there_are_few_selections(values: list[str]) -> None:
    """What they are kept under cannot grow by what callers think of."""
    selection = read_query("&".join(f"capability={value}" for value in values).encode())
    assert selection.capabilities <= set(CAPABILITIES)
    assert selection.nothing is not set(CAPABILITIES).issuperset(values)
