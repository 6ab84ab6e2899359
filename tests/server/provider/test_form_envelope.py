"""Multipart forms: every encoder's is read, one byte range is replaced, nonsense is a 400."""

from __future__ import annotations

import random
from typing import Any

import httpx
import pytest
import requests
from aiohttp import FormData
from aiohttp.multipart import MultipartWriter
from hypothesis import given, settings
from hypothesis import strategies as st

from pumas_server.contract.errors import Code, ContractError
from pumas_server.provider.address import Address
from pumas_server.provider.form_envelope import read_form

URL = "http://x/v1/audio/transcriptions"
_values = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
_models = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=40)
_names = st.sampled_from(
    ["prompt", "language", "response_format", "x", 'a"b', "é", "model2", "file"]
)
_files = st.binary(max_size=200) | st.sampled_from([b"\r\n--", b"--\r\n\r\n", b"model=", b"\r\n"])


def by_httpx(fields: list[tuple[str, Any]], file: bytes) -> tuple[bytes, str]:
    parts = [(name, (None, value)) for name, value in fields]
    sent = httpx.Request("POST", URL, files=[*parts, ("file", ("a.wav", file, "audio/wav"))])
    return sent.read(), sent.headers["content-type"]


def by_requests(fields: list[tuple[str, Any]], file: bytes) -> tuple[bytes, str]:
    parts: list[Any] = [(name, (None, value)) for name, value in fields]
    sent = requests.Request("POST", URL, files=[*parts, ("file", ("a.wav", file))]).prepare()
    assert isinstance(sent.body, bytes)
    return sent.body, sent.headers["content-type"]


def by_hand(fields: list[tuple[str, Any]], file: bytes, boundary: str = "x") -> tuple[bytes, str]:
    """As curl and browsers write it."""
    parts = [
        f'Content-Disposition: form-data; name="{name}"\r\n\r\n'.encode() + value.encode()
        for name, value in fields
    ]
    parts.append(
        b'Content-Disposition: form-data; name="file"; filename="a.wav"\r\n'
        b"Content-Type: audio/wav\r\n\r\n" + file
    )
    mark = f"--{boundary}".encode()
    whole = b"".join(mark + b"\r\n" + part + b"\r\n" for part in parts) + mark + b"--\r\n"
    return whole, f"multipart/form-data; boundary={boundary}"


ENCODERS = [by_httpx, by_requests, by_hand]


@pytest.mark.parametrize("encode", ENCODERS)
@settings(deadline=None, max_examples=40)
@given(
    others=st.lists(st.tuples(_names, _values), max_size=4),
    model=_models,
    other=_models,
    place=st.integers(0, 4),
    file=_files,
    stream=st.sampled_from([None, "true", "false", "1"]),
)
def test_whoever_encoded_it_it_is_read_and_only_the_models_bytes_are_replaced(
    encode: Any,
    others: list[tuple[str, str]],
    model: str,
    other: str,
    place: int,
    file: bytes,
    stream: str | None,
) -> None:
    fields: list[tuple[str, Any]] = list(others)
    if encode is by_hand:
        fields = [(name.replace('"', "%22"), value.replace("--x", "")) for name, value in fields]
        model, other = model.replace("--x", "y"), other.replace("--x", "y")
        file = file.replace(b"--x", b"")
    fields.insert(place, ("model", model))
    if stream is not None:
        fields.append(("stream", stream))
    with fixed_boundary():
        raw, kind = encode(fields, file)
        found = read_form(raw, kind)
        assert (found.model, found.stream) == (model, stream == "true")
        assert b"".join(found.rewrite(raw, model)) == raw
        renamed = [(n, other if n == "model" else value) for n, value in fields]
        assert b"".join(found.rewrite(raw, other)) == encode(renamed, file)[0]


class fixed_boundary:
    """Encoders draw their boundary by chance: the same one within."""

    def __enter__(self) -> None:
        self._patches = pytest.MonkeyPatch()
        self._patches.setattr("os.urandom", lambda count: random.Random(7).randbytes(count))

    def __exit__(self, *_: object) -> None:
        self._patches.undo()


async def test_a_form_of_aiohttp_is_read() -> None:
    form = FormData()
    form.add_field("model", "m")
    form.add_field("file", b"RIFF\r\n--", filename="a.wav", content_type="audio/wav")
    writer = form()
    assert isinstance(writer, MultipartWriter)
    raw = await writer.as_bytes()
    found = read_form(raw, writer.content_type)
    assert (found.model, found.stream) == ("m", False)


def part(header: str, content: str = "v") -> bytes:
    return f"--x\r\n{header}\r\n\r\n{content}\r\n".encode()


MODEL = part('Content-Disposition: form-data; name="model"', "m")
END = b"--x--\r\n"
KIND = "multipart/form-data; boundary=x"


def read(raw: bytes, kind: str = KIND) -> Address:
    return read_form(raw, kind)


@pytest.mark.parametrize(
    "kind",
    [
        KIND,
        "Multipart/Form-Data;boundary=x",
        'multipart/form-data; boundary="x"',
        "multipart/form-data; charset=utf-8; boundary=x",
        "multipart/form-data; boundary=x; charset=utf-8",
    ],
)
def test_ways_to_write_the_boundary(kind: str) -> None:
    assert read(MODEL + END, kind).model == "m"


@pytest.mark.parametrize(
    "header",
    [
        'content-disposition:form-data;name="model"',
        'Content-Disposition: form-data; filename="a"; name="model"',
        'Content-Type: text/plain\r\nContent-Disposition: form-data; name="model"',
    ],
)
def test_ways_to_write_the_name(header: str) -> None:
    assert read(part(header, "m") + END).model == "m"


def test_a_file_may_say_what_it_likes() -> None:
    trap = part('Content-Disposition: form-data; name="file"; filename="a"',
                'x\r\n--y\r\nContent-Disposition: form-data; name="model"\r\n\r\nother')  # fmt: skip
    assert read(trap + MODEL + END).model == "m"
    assert read(MODEL + trap + END).model == "m"


def test_an_empty_field_is_no_end_of_the_form() -> None:
    empty = part('Content-Disposition: form-data; name="prompt"', "")
    assert read(empty + MODEL + END).model == "m"


@pytest.mark.parametrize("last", [b"false", b"", b"True", b"1"])
def test_of_several_streams_the_last_counts_and_true_alone_is_true(last: bytes) -> None:
    one = part('Content-Disposition: form-data; name="stream"', "true")
    other = one.replace(b"true", last)
    assert read(MODEL + other + one + END).stream is True
    assert read(MODEL + one + other + END).stream is False


def named(name: str, content: str = "v") -> bytes:
    return part(f'Content-Disposition: form-data; name="{name}"', content)


#: A body, its Content-Type, and the words that say what is wrong.
REFUSED = [
    (MODEL + END, "application/json", "takes multipart/form-data with a boundary"),
    (MODEL + END, "", "takes multipart/form-data with a boundary"),
    (MODEL + END, "multipart/form-data", "takes multipart/form-data with a boundary"),
    (MODEL + END, "multipart/form-data; boundary=", "takes multipart/form-data with a boundary"),
    (MODEL + END, "multipart/form-data; boundary=" + "x" * 71, "with a boundary"),
    (MODEL + END, "multipart/mixed; boundary=x", "takes multipart/form-data with a boundary"),
    (b"", KIND, "does not begin with its boundary"),
    (b"\r\n" + MODEL + END, KIND, "does not begin with its boundary"),
    (b'{"model": "m"}', KIND, "does not begin with its boundary"),
    (END, KIND, "missing field `model`"),
    (named("other") + END, KIND, "missing field `model`"),
    (part("Content-Type: text/plain", "m") + END, KIND, "missing field `model`"),
    (part('Content-Disposition: attachment; name="model"') + END, KIND, "missing field `model`"),
    (MODEL + MODEL + END, KIND, "duplicate field `model`"),
    (named("model", "") + END, KIND, "`model` needs to be a nonempty string"),
    (named("model", "m" * 1025) + END, KIND, "`model` needs to be a nonempty string"),
    (b"--x\r\n" + MODEL[5:].replace(b"m\r\n", b"\xff\r\n") + END, KIND, "nonempty string"),
    (MODEL, KIND, "ends before its last boundary"),
    (MODEL[:-2], KIND, "ends before its last boundary"),
    (MODEL + b"--x", KIND, "does not end its line"),
    (MODEL + b"--xy\r\n", KIND, "does not end its line"),
    (b"--x\r\nContent-Disposition", KIND, "has no header, or too long a one"),
    (b"--x\r\n" + b"a" * 9000 + b"\r\n\r\n" + MODEL + END, KIND, "has no header, or too long"),
    (named("a") * 64 + MODEL + END, KIND, "has more than 64 parts"),
]


@pytest.mark.parametrize(("raw", "kind", "words"), REFUSED)
def test_what_is_refused_and_why(raw: bytes, kind: str, words: str) -> None:
    with pytest.raises(ContractError) as caught:
        read(raw, kind)
    assert caught.value.code is Code.INVALID_REQUEST
    assert words in caught.value.message


def test_as_many_parts_as_may_be() -> None:
    assert read(named("a") * 62 + MODEL + END).model == "m"


@settings(deadline=None, max_examples=300)
@given(
    pieces=st.lists(
        st.sampled_from(
            [b"--x", b"--", b"\r\n", b"\r\n\r\n", MODEL, END, b'form-data; name="model"',
             b"Content-Disposition: ", b"\0", b"\xff", b":", b"m"]
        ) | st.binary(max_size=6),
        max_size=14,
    ),
    kind=st.sampled_from([KIND, 'multipart/form-data; boundary="x y"', "x"]) | st.text(max_size=40),
)  # fmt: skip
def test_nonsense_is_read_or_refused_and_never_anything_else(
    pieces: list[bytes], kind: str
) -> None:
    raw = b"".join(pieces)
    try:
        found = read(raw, kind)
    except ContractError as error:
        assert error.code is Code.INVALID_REQUEST
    else:
        assert b"".join(found.rewrite(raw, found.model)) == raw
