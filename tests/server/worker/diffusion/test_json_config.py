"""One member of a stranger's configuration at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pumas_crds.vocabulary import Reason
from pumas_server.worker.diffusion.json_config import JsonConfig
from pumas_server.worker.header_fault import HeaderFault

Reading = Callable[[JsonConfig], object]


def config(**members: object) -> JsonConfig:
    return JsonConfig("x/config.json", members)


def fault(reading: Callable[[], object]) -> tuple[Reason, str]:
    with pytest.raises(HeaderFault) as caught:
        reading()
    return caught.value.reason, caught.value.message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "x.json is not valid JSON"),
        (b"\xff", "x.json is not valid JSON"),
        (b'{"a": NaN}', "x.json is not valid JSON"),
        (b'{"a": 1e999}', "x.json is not valid JSON"),
        (b"[" * 100_000, "x.json is not valid JSON"),
        (b"[]", "x.json is not a JSON object"),
        (b"null", "x.json is not a JSON object"),
    ],
)
def test_what_is_no_object_is_refused(data: bytes, message: str) -> None:
    assert fault(lambda: JsonConfig.read("x.json", data)) == (Reason.NOT_A_MODEL, message)


def test_members_of_their_types_are_read() -> None:
    read = JsonConfig.read("x.json", b'{"n": 3, "x": 2, "b": true, "w": "on", "l": [1, 2]}')
    assert read.whole("n", 3, 3) == 3
    assert read.number("x", 0, 2) == 2.0
    assert read.flag("b", False) is True
    assert read.word("w", ("off", "on")) == "on"
    assert read.length("l", 2, 2) == 2


def test_what_is_absent_or_null_has_its_default() -> None:
    for read in (config(), config(n=None)):
        assert read.whole("n", 0, 9, 4) == 4
        assert read.number("n", 0, 9, 0.5) == 0.5
        assert read.flag("n", True) is True
        assert read.word("n", ("a", "b"), "b") == "b"
        assert read.length("n", 1, 9, 4) == 4


@pytest.mark.parametrize(
    ("value", "reading", "message"),
    [
        (True, lambda c: c.whole("n", 0, 9), "n is true, not an integer of 0 to 9"),
        (1.0, lambda c: c.whole("n", 0, 9), "n is 1.0, not an integer of 0 to 9"),
        (10, lambda c: c.whole("n", 0, 9), "n is 10, not an integer of 0 to 9"),
        (-1, lambda c: c.whole("n", 0, 9), "n is -1, not an integer of 0 to 9"),
        (None, lambda c: c.whole("n", 0, 9), "n is missing"),
        (False, lambda c: c.number("n", 0, 9), "n is false, not a number"),
        ("1", lambda c: c.number("n", 0, 9), 'n is "1", not a number'),
        (0, lambda c: c.number("n", 0, 9), "n is 0, not a number above 0 and up to 9"),
        (9.5, lambda c: c.number("n", 0, 9), "n is 9.5, not a number above 0 and up to 9"),
        (1, lambda c: c.flag("n", True), "n is 1, not true or false"),
        (["a"], lambda c: c.word("n", ("a",)), 'n is ["a"], not a string'),
        ("ab", lambda c: c.length("n", 1, 2), 'n is "ab", not an array'),
        ([], lambda c: c.length("n", 1, 2), "n has 0 elements, not 1 to 2"),
        ([1, 2, 3], lambda c: c.length("n", 1, 2), "n has 3 elements, not 1 to 2"),
        (None, lambda c: c.length("n", 1, 2), "n is missing"),
    ],
)
def test_what_a_member_cannot_be_is_no_model(value: object, reading: Reading, message: str) -> None:
    got = fault(lambda: reading(config(n=value)))
    assert got == (Reason.NOT_A_MODEL, f"x/config.json: {message}")


def test_a_word_that_is_not_known_is_told_with_those_that_are() -> None:
    got = fault(lambda: config(n="c\n" + "d" * 200).word("n", ("a", "b")))
    assert got[0] is Reason.NOT_IMPLEMENTED
    assert got[1].startswith('x/config.json: n is "c\\nddd')
    assert got[1].endswith("…; supported: a, b")
    assert len(got[1]) < 150


@pytest.mark.parametrize("value", [1, 0, "", "x", True, [], {}, 0.0])
def test_an_option_that_is_set_is_refused(value: object) -> None:
    wanted = (Reason.NOT_IMPLEMENTED, "x/config.json: odd is not supported")
    assert fault(lambda: config(odd=value).refuse(("odd",))) == wanted
    assert fault(lambda: config(odd=value).refuse_others(("even",))) == wanted


def test_an_option_that_is_not_set_and_a_note_are_passed_over() -> None:
    read = config(odd=None, off=False, even=1, _version="3")
    read.refuse(("odd", "off", "absent"))
    read.refuse_others(("even",))
