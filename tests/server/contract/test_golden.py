"""Every answer of contract v1 against its golden JSON: members may be added, and nothing else.

`golden/v1.json` is what consumers have been promised. It is never edited to make this test pass:
a change that fails here needs another `contract_version`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pumas_server.contract.descriptors import (
    Available,
    Capabilities,
    Descriptor,
    Modalities,
    OptionBound,
    RowError,
    ServedModelEntry,
    ServedModels,
    Unavailable,
    UnavailableReason,
    render,
)
from pumas_server.contract.errors import Code, ContractError, Outcome, error_body
from pumas_server.contract.results import (
    DecisionsResult,
    EmbeddingsResult,
    FinishReason,
    Relevance,
    RelevanceResult,
    TextResult,
    completed_record,
    delta_record,
    failed_record,
    result_body,
    started_record,
)
from pumas_server.contract.words import Capability, Output, SemanticTask

GOLDEN = json.loads((Path(__file__).parent / "golden" / "v1.json").read_text("utf-8"))

TEXT = Modalities(input=("text",), output=("text",))
DECISIONS: dict[str, dict[str, object]] = {
    "route": {
        "type": "choice",
        "choice": "billing",
        "probabilities": {"billing": 0.75, "shipping": 0.25},
        "confidence": 0.5,
    },
    "urgency": {
        "type": "score",
        "score": 0.75,
        "legend": {"0": "can wait", "1": "today"},
        "probabilities": {"0": 0.25, "1": 0.75},
        "confidence": 0.5,
    },
    "refund": {"type": "noul", "noul": 0.8},
}
CHAT = Descriptor(
    capability=Capability.CHAT_GENERATION,
    semantic_task=SemanticTask.CHAT_GENERATION,
    input_formats=("messages_text",),
    output_formats=(Output.TEXT,),
    input_modalities=("text",),
    output_modalities=("text",),
    streaming=True,
    availability=Available(),
    option_bounds=(
        OptionBound(option="max_tokens", minimum=1, maximum=4096),
        OptionBound(option="temperature", minimum=0, maximum=2),
    ),
)
#: One capability for each reason that there is.
UNAVAILABLE = tuple(
    Descriptor(
        capability=Capability.RERANK,
        semantic_task=SemanticTask.RERANK,
        input_formats=("rerank",),
        output_formats=(Output.RELEVANCE_SCORES,),
        input_modalities=(),
        output_modalities=("json",),
        streaming=False,
        availability=Unavailable(reason=reason),
        option_bounds=(),
    )
    for reason in sorted(UnavailableReason)
)
ENTRY = ServedModelEntry(
    model="llm",
    profile="p1",
    model_id="org/model",
    provider="llama_cpp",
    load_state="loaded",
    context_tokens=4096,
    profile_required=True,
    modalities=TEXT,
    capabilities=(CHAT, *UNAVAILABLE),
)
UNTOLD = ENTRY.model_copy(
    update={
        "context_tokens": None,
        "load_state": "failed",
        "profile_required": False,
        "modalities": Modalities(),
        "capabilities": UNAVAILABLE,
        "error": RowError(reason="NotAModel", message="the file is no model"),
    }
)

ANSWERS: dict[str, bytes] = {
    "result text": result_body("r1", TextResult("Name three.\n", FinishReason.STOP)),
    "result text empty": result_body("r1", TextResult("", FinishReason.LENGTH)),
    "result text filtered": result_body("r1", TextResult("é", FinishReason.CONTENT_FILTER)),
    "result embeddings": result_body("r1", EmbeddingsResult([[0.5, -1.0], [0.25, 1e-40]])),
    "result decisions": result_body("r1", DecisionsResult(DECISIONS, 270)),
    "result decisions without a count": result_body("r1", DecisionsResult({}, None)),
    "result relevance_scores": result_body(
        "r1", RelevanceResult([Relevance(2, 7.5), Relevance(0, -1.25)], 40)
    ),
    "result relevance_scores without a count": result_body(
        "r1", RelevanceResult([Relevance(0, 0.5)], None)
    ),
    "record started": started_record("r1", Capability.CHAT_GENERATION, "llm", "p1"),
    "record delta": delta_record("r1", "a\nb é"),
    "record completed": completed_record("r1", FinishReason.STOP),
    "record failed": failed_record("r1", ContractError(Code.TRANSPORT_LOST, "gone")),
    "served models": render(ServedModels(models=(ENTRY, UNTOLD))),
    "capabilities": render(
        Capabilities(
            model="llm",
            profile="p1",
            context_tokens=4096,
            modalities=TEXT,
            capabilities=(CHAT, *UNAVAILABLE),
        )
    ),
    **{
        f"error {code} {outcome}": error_body(ContractError(code, "why"), outcome, request_id)
        for code in Code
        for outcome, request_id in ((Outcome.NOT_ADMITTED, "r1"), (Outcome.UNKNOWN, None))
    },
}

#: Lists that may have more entries at their end; a result's own lists may not.
GROWING = {
    "capabilities", "option_bounds", "supported_contract_versions", "input_formats",
    "output_formats", "input_modalities", "output_modalities",
}  # fmt: skip


def read(body: bytes) -> Any:
    """The JSON of an answer; of a stream's record, its name and its data."""
    if not body.startswith(b"event: "):
        return json.loads(body)
    name, data, *_ = body.decode().split("\n")
    return {"event": name.removeprefix("event: "), "data": json.loads(data.removeprefix("data: "))}


def broken(actual: Any, golden: Any, place: str = "", *, grows: bool = False) -> Iterator[str]:
    """The places where an answer does not hold what was promised."""
    if isinstance(golden, dict) and isinstance(actual, dict):
        for name, promised in golden.items():
            here = f"{place}.{name}"
            if name not in actual:
                yield here
            else:
                yield from broken(actual[name], promised, here, grows=name in GROWING)
    elif isinstance(golden, list) and isinstance(actual, list):
        if len(actual) < len(golden) or (len(actual) > len(golden) and not grows):
            yield f"{place}[{len(actual)}]"
        for index, (item, promised) in enumerate(zip(actual, golden, strict=False)):
            yield from broken(item, promised, f"{place}[{index}]")
    elif type(actual) is not type(golden) or actual != golden:
        yield place


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_an_answer_holds_all_that_was_promised(name: str) -> None:
    assert list(broken(read(ANSWERS[name]), GOLDEN[name])) == []


def test_every_promise_is_kept_by_an_answer() -> None:
    assert set(GOLDEN) == set(ANSWERS)


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _inside(inner)


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_added_members_are_no_breach_and_any_other_change_is_one(name: str) -> None:
    answer = read(ANSWERS[name])
    for number, _ in enumerate(_inside(answer)):
        changed = copy.deepcopy(answer)
        holder = list(_inside(changed))[number]
        if isinstance(holder, dict):
            holder["added"] = {"in": ["a", "later", "release"]}
            assert list(broken(changed, GOLDEN[name])) == []
            for member in [key for key in holder if key != "added"]:
                kept = holder.pop(member)
                assert list(broken(changed, GOLDEN[name]))
                holder[member] = [kept] if isinstance(kept, dict) else {"another": kept}
                assert list(broken(changed, GOLDEN[name]))
                holder[member] = kept
        elif holder:
            kept = holder.pop()
            assert list(broken(changed, GOLDEN[name]))
            holder.insert(0, "first")
            assert list(broken(changed, GOLDEN[name]))
