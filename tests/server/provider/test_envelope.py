"""The scan of an OpenAI body: what is found, what is refused, and that no other byte changes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumas_server.contract.errors import Code, ContractError
from pumas_server.provider.envelope import read_envelope

NO_JSON = "the body is not JSON (line 1, column"
TOO_MUCH = "the body nests too deep or holds a number that is too long"


def refused(body: bytes) -> str:
    with pytest.raises(ContractError) as caught:
        read_envelope(body)
    assert caught.value.code is Code.INVALID_REQUEST
    return caught.value.message.removeprefix("request does not match the contract: ")


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        (b'{"model":', b'"a"', b"}"),
        (b' \r\n\t{ "model" \n:\t', b'"a"', b' , "n" : 1 } \n'),
        (b'{"x":[{"model":"inner","y":"\xc3\xa9"}],"model": ', b'"a"', b',"x":{"model":1}}'),
        (b'{"x":"\\"model\\":\\"no\\"","model":', b'"a"', b',"y":1e999,"z":-0.0,"w":NaN}'),
        (b'{"mod\\u0065l":', b'"a"', b',"Model":"b","model ":"c"}'),
        (b'{"\\u006d\\u006F\\u0064el":', b'"\\u0061"', b"}"),
        (b'{"a":1.0,"a":1.00,"model":', b'"a"', b',"a":  [ ] }'),
        ('{"x":"😀\u2028","model":'.encode(), b'"a"', '   ,"é":"\U0001f600"}'.encode()),
    ],
)  # fmt: skip
def test_only_the_span_of_the_model_changes(before: bytes, value: bytes, after: bytes) -> None:
    raw = before + value + after
    address = read_envelope(raw).address
    assert address.model == "a"
    assert b"".join(address.rewrite(raw, "org/b")) == before + b'"org/b"' + after
    assert b"".join(address.rewrite(raw, '"é\\')) == before + b'"\\"\\u00e9\\\\"' + after


@pytest.mark.parametrize(
    ("members", "stream"),
    [
        (b"", False),
        (b',"stream":true', True),
        (b',"stream":false', False),
        (b',"stream":null', False),
        (b',"stream":"true"', False),
        (b',"stream":1', False),
        (b',"str\\u0065am":true', True),
        (b',"x":{"stream":true}', False),
        # As engines read it: the last one counts.
        (b',"stream":true,"stream":false', False),
        (b',"stream":false,"stream":true', True),
    ],
)
def test_whether_a_stream_is_asked_for(members: bytes, stream: bool) -> None:
    assert read_envelope(b'{"model":"a"' + members + b"}").address.stream is stream


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "the body is not a JSON object"),
        (b"  ", "the body is not a JSON object"),
        (b"[]", "the body is not a JSON object"),
        (b'"model"', "the body is not a JSON object"),
        (b"null", "the body is not a JSON object"),
        (b'\xef\xbb\xbf{"model":"a"}', "the body is not a JSON object"),
        (b'{"model":"\xff"}', "the body is not UTF-8 (byte 10)"),
        (b"{", NO_JSON + " 2: Expecting a field name in double quotes)"),
        (b"{model:1}", NO_JSON + " 2: Expecting a field name in double quotes)"),
        (b'{"model":"a",}', NO_JSON + " 14: Expecting a field name in double quotes)"),
        (b'{"model" "a"}', "the body is not JSON (line 1, column 10: Expecting ':')"),
        (b'{"model":}', "the body is not JSON (line 1, column 10: Expecting value)"),
        (b'{"model":"a"', "the body is not JSON (line 1, column 13: Expecting ',')"),
        (b'{"model":"a" "b":1}', "the body is not JSON (line 1, column 14: Expecting ',')"),
        (b'{"model":"a"}\n{}', "the body is not JSON (line 2, column 1: Extra data)"),
        (b'{"model":"a"}x', "the body is not JSON (line 1, column 14: Extra data)"),
        (b'{"model":"a","x":[1,}', "the body is not JSON (line 1, column 21: "),
        (b'{"model":"a\nb"}', "the body is not JSON (line 1, column "),
        (b'{"mod', "the body is not JSON (line 1, column "),
        (b'{"x":' + b"[" * 100_000, TOO_MUCH),
        (b'{"x":' + b"9" * 5000 + b"}", TOO_MUCH),
        (b"{}", "missing field `model`"),
        (b' { } ', "missing field `model`"),
        (b'{} x', "the body is not JSON (line 1, column 4: Extra data)"),
        (b'{"messages":[{"model":"inner"}]}', "missing field `model`"),
        (b'{"model":null}', "`model` needs to be a nonempty string"),
        (b'{"model":7}', "`model` needs to be a nonempty string"),
        (b'{"model":""}', "`model` needs to be a nonempty string"),
        (b'{"model":["a"]}', "`model` needs to be a nonempty string"),
        (b'{"model":"a","model":"a"}', "duplicate field `model`"),
        (b'{"model":"a","x":1,"mod\\u0065l":"b"}', "duplicate field `model`"),
        (b'{"model":null,"model":"a"}', "duplicate field `model`"),
    ],
)  # fmt: skip
def test_what_is_refused(body: bytes, words: str) -> None:
    told = refused(body)
    assert told.startswith(words)
    assert told.isprintable()


_text = st.text(alphabet=st.characters(codec="utf-8"), max_size=6)
_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), _text),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(_text, st.just("model")), inner, max_size=3),
    ),
    max_leaves=8,
)
_blank = st.text(alphabet=" \t\r\n", max_size=3)


@settings(deadline=None, max_examples=40)
@given(data=st.data(), model=_text.filter(bool), other=_text, ascii_=st.booleans())
def test_every_byte_outside_the_span_stays(
    data: st.DataObject, model: str, other: str, ascii_: bool
) -> None:
    def dump(value: Any) -> str:
        return json.dumps(value, ensure_ascii=ascii_, indent=data.draw(st.sampled_from([None, 1])))

    def blank() -> str:
        return data.draw(_blank)

    members = data.draw(
        st.lists(st.tuples(_text.filter(lambda n: n != "model"), _values), max_size=4)
    )
    place = data.draw(st.integers(0, len(members)))
    written = [f"{blank()}{dump(n)}{blank()}:{blank()}{dump(v)}{blank()}" for n, v in members]
    head = "".join(f"{member}," for member in written[:place])
    tail = "".join(f",{member}" for member in written[place:])
    before = f"{blank()}{{{head}{blank()}{json.dumps('model')}{blank()}:{blank()}"
    after = f"{blank()}{tail}}}{blank()}"
    raw = f"{before}{dump(model)}{after}".encode()
    address = read_envelope(raw).address
    assert address.model == model
    assert b"".join(address.rewrite(raw, other)) == f"{before}{json.dumps(other)}{after}".encode()


@settings(deadline=None, max_examples=40)
@given(body=st.one_of(st.binary(max_size=40), st.text('{}[]":,model \\u0065tru1', max_size=40)))
def test_any_body_is_read_or_refused_as_json_would_be(body: bytes | str) -> None:
    raw = body if isinstance(body, bytes) else body.encode()
    try:
        address = read_envelope(raw).address
    except ContractError as error:
        assert error.code is Code.INVALID_REQUEST
    else:
        assert json.loads(raw)["model"] == address.model
