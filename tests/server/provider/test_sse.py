"""The event decoder: line ends, fields, bounds, and that chunks do not matter."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumas_server.contract.bounds import MAX_STREAM_EVENT_BYTES
from pumas_server.contract.errors import Code, ContractError
from pumas_server.provider.sse import SseDecoder

LIMIT = 64


def decode(*chunks: bytes, limit: int = LIMIT) -> tuple[list[str], Code | None, bool]:
    """The events of a stream, the fault it ends with, and whether its end is a boundary."""
    decoder = SseDecoder(limit)
    events: list[str] = []
    try:
        for chunk in chunks:
            for event in decoder.feed(chunk):
                events.append(event)
    except ContractError as error:
        return events, error.code, False
    return events, None, decoder.at_boundary()


def bytewise(stream: bytes) -> list[bytes]:
    return [stream[i : i + 1] for i in range(len(stream))]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"", []),
        (b"data: a\n\n", ["a"]),
        (b"data: a\r\n\r\n", ["a"]),
        (b"data: a\r\r", ["a"]),
        (b"data: a\r\n\n", ["a"]),
        (b"data: a\n\r\n", ["a"]),
        (b"data: a\r\r\n", ["a"]),
        (b"data: a\n\ndata: b\n\n", ["a", "b"]),
        (b"data: a\r\rdata: b\r\n\r\ndata: c\n\n", ["a", "b", "c"]),
        (b"\n\n\r\n\rdata: a\n\n\n\n", ["a"]),
        # One blank behind the colon belongs to the syntax, any other to the text.
        (b"data:a\n\n", ["a"]),
        (b"data:  a \n\n", [" a "]),
        (b"data:\ta\n\n", ["\ta"]),
        (b"data: a: b:c\n\n", ["a: b:c"]),
        # Several lines join with LF; a line without a colon is an empty value.
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b"data: {\r\ndata: }\r\n\r\n", ["{\n}"]),
        (b"data\n\n", [""]),
        (b"data:\n\n", [""]),
        (b"data\ndata\n\n", ["\n"]),
        # Comments and other fields are passed over.
        (b": comment\n\n", []),
        (b":\n\n", []),
        (b": ping\ndata: a\n: pong\n\n", ["a"]),
        (b"event: x\nid: 1\nretry: 5\ndata: a\nfoo\nfoo: bar\n\n", ["a"]),
        (b"event: x\n\n", []),
        (b"dat: a\ndatas: b\nDATA: c\n data: d\n\n", []),
        (b": \xff\xfe\ndata: a\n\n", ["a"]),
        # A byte order mark is one only at the very beginning.
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", ["a"]),
        (b"data: \xef\xbb\xbfa\n\n", ["\ufeffa"]),
        # Line ends of Unicode are text.
        ('data: {"t":"a\u2028b\u0085c\u2029"}\n\n'.encode(), ['{"t":"a\u2028b\u0085c\u2029"}']),
        (b"data: a\x0bb\x0cc\x1cd\n\n", ["a\x0bb\x0cc\x1cd"]),
        ("data: é😀\n\n".encode(), ["é😀"]),
    ],
)
def test_events_of_a_stream_whole_and_byte_by_byte(stream: bytes, events: list[str]) -> None:
    assert decode(stream) == (events, None, True)
    assert decode(*bytewise(stream)) == (events, None, True)
    assert decode(b"", *bytewise(stream), b"") == (events, None, True)


@pytest.mark.parametrize(
    "stream",
    [
        b"data: [DONE]",
        b"data: [DONE]\n",
        b"data: [DONE]\r\n",
        b"data: [DONE]\r",
        b"data",
        b"d",
        b": comment",
        b"data\n",
        b"data: a\n\ndata: b\n: c\n",
    ],
)
def test_an_unfinished_event_is_no_event_and_its_end_no_boundary(stream: bytes) -> None:
    events, fault, boundary = decode(stream)
    assert "[DONE]" not in events
    assert (fault, boundary) == (None, False)
    assert decode(*bytewise(stream)) == (events, fault, boundary)


def test_the_boundary_comes_with_the_blank_line_and_not_before() -> None:
    decoder = SseDecoder()
    assert decoder.at_boundary()
    told = []
    for byte in bytewise(b"data: a\r\n\r"):
        told.append((list(decoder.feed(byte)), decoder.at_boundary()))
    assert told[-1] == (["a"], True)
    assert all(step == ([], False) for step in told[:-1])
    # The LF behind the CR belongs to it, and opens nothing.
    assert (list(decoder.feed(b"\n")), decoder.at_boundary()) == ([], True)


@pytest.mark.parametrize(
    "data", [b"\xff", b"a\xc3", b"\xc0\x80", b"\xed\xa0\x80", b"\xc3\ndata: \xa9"]
)
def test_data_that_is_not_utf8_fails_after_the_events_before_it(data: bytes) -> None:
    stream = b"data: a\n\ndata: " + data + b"\n\ndata: b\n\n"
    expected = (["a"], Code.INVALID_PROVIDER_RESULT, False)
    assert decode(stream) == expected
    assert decode(*bytewise(stream)) == expected


def test_the_limit_counts_the_data_of_one_event() -> None:
    at = b"data: " + b"x" * LIMIT + b"\n\n"
    assert decode(at) == (["x" * LIMIT], None, True)
    assert decode(at * 3)[0] == ["x" * LIMIT] * 3
    over = b"data: " + b"x" * (LIMIT + 1) + b"\n\n"
    assert decode(b"data: a\n\n" + over) == (["a"], Code.RESPONSE_LIMIT, False)
    assert decode(*bytewise(b"data: a\n\n" + over)) == (["a"], Code.RESPONSE_LIMIT, False)


def test_the_limit_spans_the_lines_of_an_event_and_their_joints() -> None:
    half = b"data: " + b"x" * (LIMIT // 2) + b"\n"
    rest = b"data: " + b"y" * (LIMIT // 2 - 1) + b"\n"
    assert decode(half + rest + b"\n")[0] == ["x" * (LIMIT // 2) + "\n" + "y" * (LIMIT // 2 - 1)]
    assert decode(half + half + b"\n") == ([], Code.RESPONSE_LIMIT, False)
    assert decode(b"data\n" * (LIMIT + 1) + b"\n")[0] == ["\n" * LIMIT]
    assert decode(b"data\n" * (LIMIT + 2) + b"\n") == ([], Code.RESPONSE_LIMIT, False)


def test_comments_and_the_mark_do_not_count() -> None:
    event = b"\xef\xbb\xbfdata: " + b"x" * LIMIT + b"\n" + b": " + b"c" * LIMIT + b"\n\n"
    assert decode(event) == (["x" * LIMIT], None, True)
    assert decode(*bytewise(event)) == (["x" * LIMIT], None, True)


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory() -> None:
    decoder = SseDecoder(LIMIT)
    fed = 0
    with pytest.raises(ContractError) as caught:
        for _ in range(LIMIT * 2):
            assert list(decoder.feed(b":")) == []
            fed += 1
    assert caught.value.code is Code.RESPONSE_LIMIT
    assert LIMIT <= fed <= LIMIT + 16
    assert caught.value.message == f"a provider event is over the limit of {LIMIT} bytes"


def test_the_default_limit_is_the_contracts() -> None:
    decoder = SseDecoder()
    text = "x" * MAX_STREAM_EVENT_BYTES
    assert list(decoder.feed(b"data: " + text.encode() + b"\n\n")) == [text]
    with pytest.raises(ContractError):
        list(decoder.feed(b"data: x" + text.encode() + b"\n\n"))


def test_events_before_a_fault_are_had_before_it_is_raised() -> None:
    stream = SseDecoder(LIMIT).feed(b"data: a\n\ndata: b\n\ndata: \xff\n\n")
    assert (next(stream), next(stream)) == ("a", "b")
    with pytest.raises(ContractError):
        next(stream)


def test_carriage_returns_cost_no_more_than_line_feeds() -> None:
    # Both are lines; a search that begins anew for the other mark would be quadratic here.
    def seconds(chunk: bytes) -> float:
        started = time.process_time()
        assert decode(chunk) == ([], None, True)
        return time.process_time() - started

    def least(mark: bytes) -> float:
        return min(seconds(mark * 100_000) for _ in range(3))

    assert least(b"\r") < 2.5 * least(b"\n")


_LINES = st.sampled_from(
    [
        b"data: a",
        b"data:b",
        "data: é😀\u2028".encode(),
        b"data",
        b"data: [DONE]",
        b"data: \xff",
        b"data: " + b"x" * (LIMIT - 1),
        b": " + b"c" * (LIMIT + 6),
        b": " + b"c" * (LIMIT + 9),
        b": comment",
        b"event: x",
        b"",
        b"",
        b"",
        b"\xef\xbb\xbfdata: m",
    ]
)
_ENDS = st.sampled_from([b"\n", b"\r", b"\r\n", b""])


@settings(deadline=None, max_examples=80)
@given(data=st.data())
def test_any_chunks_give_the_same_events_and_the_same_fault(data: st.DataObject) -> None:
    lines = data.draw(st.lists(st.tuples(_LINES, _ENDS), max_size=12))
    stream = b"".join(line + end for line, end in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    whole = decode(stream)
    assert decode(*chunks) == whole
    assert decode(*bytewise(stream)) == whole


@settings(deadline=None, max_examples=60)
@given(stream=st.binary(max_size=200), size=st.integers(1, 7))
def test_any_bytes_are_decoded_or_refused(stream: bytes, size: int) -> None:
    chunks = [stream[i : i + size] for i in range(0, len(stream), size)]
    assert decode(*chunks) == decode(stream)
