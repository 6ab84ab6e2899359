"""Finite results and stream records, byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumas_server.contract.bounds import FAILED_RECORD_RESERVE, MAX_STREAM_EVENT_BYTES
from pumas_server.contract.errors import Code, ContractError
from pumas_server.contract.results import (
    FinishReason,
    ImageResult,
    TextResult,
    completed_record,
    delta_record,
    failed_record,
    result_body,
    started_record,
)
from pumas_server.contract.words import Capability


def data_of(record: bytes) -> Any:
    """The JSON of a record. Fails unless it is one event of two lines."""
    name, data, *end = record.split(b"\n")
    assert end == [b"", b""]
    value = json.loads(data.removeprefix(b"data: "))
    assert name == b"event: " + value["kind"].encode()
    return value


def test_a_finite_result() -> None:
    assert (
        result_body("r1", TextResult('é "x"\n', FinishReason.STOP))
        == (
            '{"contract_version": 1, "request_id": "r1", "result": {"kind": "text",'
            ' "text": "é \\"x\\"\\n", "finish_reason": "stop"}}'
        ).encode()
    )


def test_an_image() -> None:
    assert result_body("r1", ImageResult("iVBORw0KGgo=", 7)) == (
        b'{"contract_version": 1, "request_id": "r1", "result": {"kind": "image",'
        b' "png_base64": "iVBORw0KGgo=", "seed": 7}}'
    )


def test_the_finish_reasons() -> None:
    assert list(FinishReason) == ["stop", "length", "content_filter"]


def test_an_empty_text_is_a_result() -> None:
    body = json.loads(result_body("r1", TextResult("", FinishReason.LENGTH)))
    assert body["result"] == {"kind": "text", "text": "", "finish_reason": "length"}


def test_started() -> None:
    assert started_record("r1", Capability.TEXT_GENERATION, "llm", "p1") == (
        b'event: started\ndata: {"kind": "started", "contract_version": 1, "request_id": "r1",'
        b' "capability": "text_generation", "model": "llm", "profile": "p1"}\n\n'
    )


def test_delta() -> None:
    assert (
        delta_record("r1", "a\nb\u2028é")
        == (
            'event: delta\ndata: {"kind": "delta", "request_id": "r1", "text": "a\\nb\u2028é"}\n\n'
        ).encode()
    )


def test_completed() -> None:
    assert completed_record("r1", FinishReason.CONTENT_FILTER) == (
        b'event: completed\ndata: {"kind": "completed", "request_id": "r1",'
        b' "finish_reason": "content_filter"}\n\n'
    )


def test_failed_is_always_unknown() -> None:
    assert failed_record("r1", ContractError(Code.TRANSPORT_LOST, "gone")) == (
        b'event: failed\ndata: {"kind": "failed", "request_id": "r1", "error":'
        b' {"code": "transport_lost", "outcome": "unknown", "message": "gone"}}\n\n'
    )


# 256 KiB are the bytes of the record's JSON.
@pytest.mark.parametrize("unit", ["x", "é", '"'])
def test_a_record_is_bounded(unit: str) -> None:
    frame = len(json.dumps({"kind": "delta", "request_id": "r1", "text": ""}))
    width = len(json.dumps(unit, ensure_ascii=False).encode()) - 2
    room = MAX_STREAM_EVENT_BYTES - frame
    fitting = unit * (room // width) + "x" * (room % width)
    record = delta_record("r1", fitting)
    assert len(record) == len("event: delta\ndata: \n\n") + MAX_STREAM_EVENT_BYTES
    with pytest.raises(ContractError) as caught:
        delta_record("r1", fitting + "x")
    assert caught.value.code is Code.RESPONSE_LIMIT
    assert caught.value.message == "a stream event of 262145 bytes is over the limit of 262144"


@pytest.mark.parametrize("message", ["x" * 5000, "é" * 5000, "\x01" * 5000, "😀" * 500, '"' * 500])
def test_a_failed_record_fits_what_is_kept_free_for_it(message: str) -> None:
    record = failed_record("r" * 128, ContractError(Code.INVALID_PROVIDER_RESULT, message))
    assert FAILED_RECORD_RESERVE // 2 < len(record) <= FAILED_RECORD_RESERVE
    told = data_of(record)["error"]["message"]
    assert told.endswith("…")
    assert message.startswith(told[:-1])


def test_a_failed_record_that_fits_is_whole() -> None:
    message = "the provider reported: " + "x" * 500
    record = failed_record("r" * 128, ContractError(Code.PROVIDER_FAILURE, message))
    assert data_of(record)["error"]["message"] == message


@settings(deadline=None, max_examples=40)
@given(text=st.text(alphabet=st.characters(codec="utf-8")))
def test_any_text_is_one_event_of_two_lines(text: str) -> None:
    record = delta_record("r1", text)
    assert record.count(b"\r") == 0
    assert data_of(record) == {"kind": "delta", "request_id": "r1", "text": text}
