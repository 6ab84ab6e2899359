"""The mix of calls of a soak: what is sent as which number, and how it has to end. Pure.

Everything follows from a call's number, so that every ending can be held against the one that is
due: how it looks to the caller, as what the router counts it, and whether a provider saw it.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum, auto

OPERATIONS, CHAT = "/v1/model-operations", "/v1/chat/completions"
#: Of a stream, and how many of them a second.
EVENTS, EVENT_RATE = 10, 10.0
#: As many as the provider's answers have.
INPUTS, DOCUMENTS = 128, 100
#: Bytes of a body that no router takes.
TOO_LONG = 67_108_864

_DISCOVERY = (
    *(
        "/v1/models",
        "/v1/models/llm",
        "/v1/capabilities?model=llm",
        "/v1/served-models",
        "/lmsp/v1/models",
    ),
    *("/healthz", "/openapi.json"),
)


class Kind(Enum):
    """What is asked."""

    FORWARDED = auto()
    FORWARDED_STREAM = auto()
    CONTRACT = auto()
    CONTRACT_STREAM = auto()
    EMBEDDINGS = auto()
    RANKING = auto()
    DISCOVERY = auto()


class Manner(Enum):
    """How the caller behaves."""

    WELL = auto()
    LEAVES = auto()
    """After the second event of a stream."""
    HALF = auto()
    """Sends half of the body and leaves."""
    TOO_LONG = auto()
    """Announces more than is allowed."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a call has to end."""

    told: str
    """Status and code, as the caller sees them."""
    counted: tuple[str, str] | None
    """Code and outcome, as the router counts them; None for what it does not count."""
    admitted: bool


@dataclass(frozen=True, slots=True)
class Planned:
    """One call."""

    kind: Kind
    path: str
    body: bytes
    ending: Ending
    manner: Manner = Manner.WELL
    fault: str = ""


@dataclass
class Account:
    """What became of all calls of a run."""

    calls: int = 0
    seconds: float = 0.0
    latest_seconds: float = 0.0
    """How long after it was due a call was made, at most."""
    faults: int = 0
    admitted: int = 0
    """That a provider has to have seen."""
    wrong: int = 0
    """That ended otherwise than it should."""
    told: list[str] = field(default_factory=list)
    """Some of them."""
    counted: Counter[str] = field(default_factory=Counter)
    """How the router has to have counted them, by `route code outcome`."""


LEFT = "left"
BROKEN = "200 broken"

#: Of a hundred calls.
_SHARES = {
    Kind.FORWARDED: 33,
    Kind.FORWARDED_STREAM: 15,
    Kind.CONTRACT: 25,
    Kind.CONTRACT_STREAM: 12,
    Kind.EMBEDDINGS: 1,
    Kind.RANKING: 4,
    Kind.DISCOVERY: 10,
}
_ORDER = [kind for kind, share in _SHARES.items() for _ in range(share)]
#: Coprime to a hundred: kinds follow each other mixed.
_STRIDE = 37
_FAULT_EVERY = 20

_WELL = Ending("200 ok", ("ok", "succeeded"), True)
_LOST = Ending("502 transport_lost unknown", ("transport_lost", "unknown"), True)
_FAILED_LATE = Ending("200 transport_lost unknown", ("transport_lost", "unknown"), True)
_BROKEN = Ending(BROKEN, ("transport_lost", "unknown"), True)


def _refused(status: int, code: str) -> Ending:
    return Ending(f"{status} {code} not_admitted", (code, "not_admitted"), False)


def _failed(status: int, code: str) -> Ending:
    return Ending(f"{status} {code} unknown", (code, "unknown"), True)


#: What callers do wrong.
_CALLERS = {
    "no_json": _refused(400, "invalid_request"),
    "no_model": _refused(404, "model_not_found"),
    "half_request": Ending(LEFT, ("transport_lost", "not_admitted"), False),
    "too_long": _refused(413, "request_limit"),
}
_LEAVING = {"leaves": Ending(LEFT, ("transport_lost", "unknown"), True)}
#: Before a byte of the answer, and after some.
_EARLY = _CALLERS | {"cut": _LOST, "reset": _LOST}
_LOST_ON_THE_WAY = {"half": _LOST, "framing": _LOST}
_BROKEN_ON_THE_WAY = {"half": _BROKEN, "framing": _BROKEN}
_TOLD_ON_THE_WAY = {"half": _FAILED_LATE, "framing": _FAILED_LATE}
#: An answer that is whole is passed on, whatever it says.
_PASSED_ON = {
    "refuse": Ending("500 oom unknown", ("provider_failure", "unknown"), True),
    "garbage": _WELL,
}
_JUDGED = {
    "refuse": _failed(502, "provider_failure"),
    "garbage": _failed(502, "invalid_provider_result"),
}
_LATE = {"garbage": _failed(200, "invalid_provider_result")}
_FINITE = _EARLY | _LOST_ON_THE_WAY

#: By kind and fault.
_ENDINGS: dict[Kind, dict[str, Ending]] = {
    Kind.FORWARDED: _FINITE | _PASSED_ON,
    Kind.FORWARDED_STREAM: _EARLY | _BROKEN_ON_THE_WAY | _PASSED_ON | _LEAVING,
    Kind.CONTRACT: _FINITE | _JUDGED,
    Kind.CONTRACT_STREAM: _EARLY | _TOLD_ON_THE_WAY | _JUDGED | _LATE | _LEAVING,
    Kind.EMBEDDINGS: _FINITE | _JUDGED,
    Kind.RANKING: _FINITE | _JUDGED,
}
_MANNERS = {
    "leaves": Manner.LEAVES,
    "half_request": Manner.HALF,
    "too_long": Manner.TOO_LONG,
}
_FAULTS = [(kind, fault) for kind, endings in _ENDINGS.items() for fault in endings]


def plan(number: int) -> Planned:
    """The call of this number."""
    if number % _FAULT_EVERY == _FAULT_EVERY - 1:
        kind, fault = _FAULTS[number // _FAULT_EVERY % len(_FAULTS)]
        ending = _ENDINGS[kind][fault]
        word = "well" if fault in _CALLERS or fault in _LEAVING else fault
        body = _body(kind, f"call-{number} {word}", "nobody" if fault == "no_model" else None)
        if fault == "no_json":
            body = body[:-1]
        return Planned(kind, _path(kind), body, ending, _MANNERS.get(fault, Manner.WELL), fault)
    kind = _ORDER[number * _STRIDE % 100]
    if kind is Kind.DISCOVERY:
        path = _DISCOVERY[number // 10 % len(_DISCOVERY)]
        return Planned(kind, path, b"", Ending("200 ok", None, False))
    return Planned(kind, _path(kind), _body(kind, f"call-{number} well", None), _WELL)


def _path(kind: Kind) -> str:
    return CHAT if kind in (Kind.FORWARDED, Kind.FORWARDED_STREAM) else OPERATIONS


def _body(kind: Kind, text: str, model: str | None) -> bytes:
    """The request; `model` instead of the one that serves it."""
    messages = [{"role": "user", "content": text}]
    if kind in (Kind.FORWARDED, Kind.FORWARDED_STREAM):
        asked: dict[str, object] = {"model": model or "llm", "messages": messages}
        if kind is Kind.FORWARDED_STREAM:
            asked |= {"stream": True, "max_tokens": EVENTS, "top_p": EVENT_RATE / 100}
        return json.dumps(asked).encode()
    asked = {"contract_version": 1, "request_id": "soak:1"}
    match kind:
        case Kind.EMBEDDINGS:
            texts = [text] + ["a text"] * (INPUTS - 1)
            asked |= {"model": "e", "input": {"kind": "text_batch", "texts": texts}}
            asked |= {"output": "embeddings_float32"}
        case Kind.RANKING:
            documents = ["a document"] * DOCUMENTS
            asked |= {"model": "r", "output": "relevance_scores"}
            asked |= {"input": {"kind": "rerank", "query": text, "documents": documents}}
        case _:
            asked |= {"model": "talk", "capability": "chat_generation", "output": "text"}
            asked |= {"input": {"kind": "messages", "messages": messages}}
    if kind is Kind.CONTRACT_STREAM:
        options = {"kind": "text_generation", "max_tokens": EVENTS, "top_p": EVENT_RATE / 100}
        asked |= {"stream": True, "options": options}
    if model is not None:
        asked["model"] = model
    return json.dumps(asked).encode()
