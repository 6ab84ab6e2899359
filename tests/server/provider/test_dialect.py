"""What goes upstream for every capability, byte for byte, and what never does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumas_server.capabilities import resolve
from pumas_server.capabilities.rows import ROWS
from pumas_server.contract.descriptors import Available
from pumas_server.contract.errors import ContractError
from pumas_server.contract.inputs import (
    DecisionInput,
    MessagesInput,
    RerankInput,
    TextBatchInput,
    TextInput,
)
from pumas_server.contract.registry import parse_operation
from pumas_server.contract.request import Operation
from pumas_server.contract.results import (
    DecisionsResult,
    EmbeddingsResult,
    Relevance,
    RelevanceResult,
)
from pumas_server.contract.words import Capability
from pumas_server.media.request_media import CheckedClip, gather
from pumas_server.provider.dialect import BUILDERS, Call, JsonCall, TextCall, Unsuitable, build_call
from pumas_server.provider.projection import TextForm
from support.documents import (
    INPUTS,
    OPTIONS,
    QUESTIONS,
    Document,
    audio_part,
    clip,
    image,
    image_part,
    operation,
    raw,
    text_part,
)
from support.offers import DECLARED
from support.well_formed import documents

CHAT, TEXT = Capability.CHAT_GENERATION, Capability.TEXT_GENERATION
EMBEDDING = Capability.TEXT_EMBEDDING
DECISION, RERANK = Capability.DECISION, Capability.RERANK
DRAWING, SEEING = Capability.IMAGE_GENERATION, Capability.IMAGE_TO_TEXT
SENSING = Capability.MULTIMODAL_EMBEDDING

A_TEXT, TEXTS = INPUTS["text"], INPUTS["text_batch"]
HI = {"kind": "messages", "messages": [{"role": "user", "content": "hi"}]}
ASKED = {"kind": "decision", "state": "I was charged twice.", "questions": QUESTIONS}


SEEN = {"kind": "messages", "messages": [{"role": "user", "content": [text_part(), image_part()]}]}
HEARD = {"kind": "messages", "messages": [{"role": "user", "content": [audio_part()]}]}
BATCH = {"kind": "content_batch", "items": [{"parts": [text_part("a"), image_part()]}]}

#: An input that each capability carries, and how it is then asked for.
CARRIED: dict[Capability, tuple[Document, Document]] = {
    CHAT: (HI, {}),
    TEXT: (A_TEXT, {}),
    EMBEDDING: (TEXTS, {}),
    DRAWING: (A_TEXT, {"options": OPTIONS["image_generation"], "output": "png_base64"}),
    SEEING: (SEEN, {}),
    SENSING: (BATCH, {}),
    DECISION: (ASKED, {}),
    RERANK: (INPUTS["rerank"], {}),
}


def sounds(parsed: Operation) -> list[CheckedClip]:
    """The clips of a request as a check leaves them."""
    clips = gather(parsed).clips
    return [CheckedClip(c.place, "HEADER", c.clip.data_base64) for c in clips]


def call(wanted: Any, capability: Capability, upstream: str = "m", **changes: Any) -> Call:
    """The call for a request with this input that was resolved to `capability`."""
    parsed = operation(input=wanted, **{"options": ..., "capability": ..., **changes})
    return build_call(parsed, capability, upstream, sounds(parsed))


def text_call(wanted: Any, capability: Capability, **changes: Any) -> TextCall:
    built = call(wanted, capability, **changes)
    assert isinstance(built, TextCall)
    return built


def json_call(wanted: Any, capability: Capability, **changes: Any) -> JsonCall:
    built = call(wanted, capability, **changes)
    assert isinstance(built, JsonCall)
    return built


def test_every_capability_with_an_adapter_has_a_builder_and_no_other() -> None:
    assert set(BUILDERS) == {row.capability for row in ROWS if row.adapter}


def test_what_streams_is_built_as_a_stream_and_nothing_else_is() -> None:
    for row in ROWS:
        if row.adapter:
            wanted, changes = CARRIED[row.capability]
            built = call(wanted, row.capability, **changes)
            # Texts are always asked for as a stream, also those that callers get whole.
            assert isinstance(built, TextCall if row.output_formats == ("text",) else JsonCall)


def test_only_what_takes_long_to_project_is_a_threads_work() -> None:
    for capability, (wanted, changes) in CARRIED.items():
        built = call(wanted, capability, **changes)
        assert isinstance(built, TextCall) or built.at_length is (capability is DRAWING)


def test_case_2_chat() -> None:
    built = text_call(
        {
            "kind": "messages",
            "messages": [
                {"role": "system", "content": "be\nshort"},
                {"role": "user", "content": [text_part("hel"), text_part("lo é")]},
                {"role": "assistant", "content": " yes "},
            ],
        },
        CHAT,
        upstream="org/model",
        options={"kind": "text_generation", "max_tokens": 32, "temperature": 0, "top_p": 0.5},
    )
    assert (built.path, built.form) == ("/v1/chat/completions", TextForm.CHAT)
    assert (
        built.body
        == (
            '{"model": "org/model", "messages": [{"role": "system", "content": "be\\nshort"},'
            ' {"role": "user", "content": "hello é"}, {"role": "assistant", "content": " yes "}],'
            ' "stream": true, "n": 1, "max_tokens": 32, "temperature": 0.0, "top_p": 0.5}'
        ).encode()
    )


def test_case_23_completion() -> None:
    built = text_call(A_TEXT, TEXT, upstream="served")
    assert (built.path, built.form) == ("/v1/completions", TextForm.COMPLETION)
    assert built.body == b'{"model": "served", "prompt": "Hello", "stream": true, "n": 1}'


def test_a_text_sent_to_chat_is_one_user_message() -> None:
    assert text_call(A_TEXT, CHAT).body == (
        b'{"model": "m", "messages": [{"role": "user", "content": "Hello"}], "stream": true,'
        b' "n": 1}'
    )


@pytest.mark.parametrize("capability", [CHAT, TEXT])
@pytest.mark.parametrize("stream", [True, False, ...])
def test_upstream_is_always_asked_for_a_stream(stream: Any, capability: Capability) -> None:
    body = json.loads(text_call(A_TEXT, capability, stream=stream).body)
    assert body["stream"] is True


@pytest.mark.parametrize("options", [..., None, {"kind": "text_generation", "top_p": None}])
def test_options_that_are_not_set_are_not_sent(options: Any) -> None:
    body = json.loads(text_call(HI, CHAT, options=options).body)
    assert set(body) == {"model", "messages", "stream", "n"}


@pytest.mark.parametrize(
    "options", [..., None, {"kind": "embeddings"}, {"kind": "embeddings", "dimensions": 2}]
)
def test_embeddings(options: Any) -> None:
    # The cut is made here: most engines ignore `dimensions`, and others would not renormalise.
    one = json_call(A_TEXT, EMBEDDING, options=options)
    assert one.path == "/v1/embeddings"
    assert one.body == b'{"model": "m", "input": "Hello", "encoding_format": "float"}'
    several = json_call(TEXTS, EMBEDDING, options=options)
    assert several.path == "/v1/embeddings"
    assert several.body == b'{"model": "m", "input": ["one", "two"], "encoding_format": "float"}'


def test_a_batch_of_one_stays_a_list() -> None:
    body = json.loads(json_call({"kind": "text_batch", "texts": ["x"]}, EMBEDDING).body)
    assert body["input"] == ["x"]


def test_an_embedding_call_projects_by_its_count_and_dimensions() -> None:
    vectors = b'{"data":[{"index":0,"embedding":[3,4,0]},{"index":1,"embedding":[0,0,1]}]}'
    plain = json_call(TEXTS, EMBEDDING)
    assert plain.project(vectors) == EmbeddingsResult([[3, 4, 0], [0, 0, 1]])
    cut = json_call(TEXTS, EMBEDDING, options={"kind": "embeddings", "dimensions": 2})
    assert cut.project(vectors) == EmbeddingsResult([[0.6, 0.8], [0, 0]])


def test_rerank() -> None:
    wanted = INPUTS["rerank"]
    for options in (..., {"kind": "rerank", "top_n": 1}):
        built = json_call(wanted, RERANK, options=options)
        assert built.path == "/v1/rerank"
        # All are scored, and no `texts`: that would ask for another form of answer.
        assert built.body == (
            b'{"model": "m", "query": "pandas", "documents": ["a bear", "a tree"]}'
        )
    scores = b'{"results":[{"index":0,"relevance_score":1},{"index":1,"relevance_score":2}]}'
    assert built.project(scores) == RelevanceResult([Relevance(1, 2.0)], None)
    both = RelevanceResult([Relevance(1, 2.0), Relevance(0, 1.0)], None)
    assert json_call(wanted, RERANK).project(scores) == both


def test_decision() -> None:
    built = json_call(ASKED, DECISION, upstream="dec")
    assert built.path == "/v1/systemone"
    assert built.body == (
        b'{"model": "dec", "state": "I was charged twice.", "questions": {"route": {"type":'
        b' "choice", "instructions": "Which team?", "criteria": {"billing": null, "shipping":'
        b' "parcels"}}, "urgency": {"type": "score", "instructions": "How urgent?", "criteria":'
        b' ["can wait", "today"]}, "refund": {"type": "noul", "instructions": "Is a refund'
        b' requested?", "criteria": {"true": "money back", "false": "anything else"}}}}'
    )


@pytest.mark.parametrize(
    ("criteria", "sent"),
    [
        (..., {}),
        (None, {}),
        ({}, {"criteria": {}}),
        ({"true": None, "false": "no"}, {"criteria": {"false": "no"}}),
    ],
)
def test_a_null_that_is_absence_is_not_sent(criteria: Any, sent: Document) -> None:
    question = {"type": "noul", "instructions": "x"}
    asked = question if criteria is ... else {**question, "criteria": criteria}
    body = json.loads(json_call({**ASKED, "questions": {"q": asked}}, DECISION).body)
    assert body["questions"] == {"q": {**question, **sent}}


@pytest.mark.parametrize("state", ["", 0, [{"a": [None, "é"]}], {"questions": {}}, [None], False])
def test_a_state_goes_as_it_is(state: Any) -> None:
    body = json.loads(json_call({**ASKED, "state": state}, DECISION).body)
    assert body["state"] == state
    assert set(body) == {"model", "state", "questions"}


def test_a_state_of_null_is_an_empty_one_to_the_engine() -> None:
    # It would take null for a state that was left out, and refuse it after the marker.
    assert json.loads(json_call({**ASKED, "state": None}, DECISION).body)["state"] == ""


def test_a_decision_call_projects_by_its_questions() -> None:
    asked = {"q": {"type": "noul", "instructions": "x"}}
    built = json_call({**ASKED, "questions": asked}, DECISION)
    answer = b'{"answers":{"q":{"type":"noul","noul":0.5}},"usage":{"input_tokens":3}}'
    assert built.project(answer) == DecisionsResult({"q": {"type": "noul", "noul": 0.5}}, 3)


@pytest.mark.parametrize("capability", sorted(BUILDERS))
def test_nothing_of_the_callers_identity_goes_upstream(capability: Capability) -> None:
    wanted, changes = CARRIED[capability]
    changes = changes | {"request_id": "caller-77", "model": "their-alias"}
    changes |= {"profile": "their-profile", "semantic_task": "text_to_image"}
    built = call(wanted, capability, "upstream-name", **changes)
    assert json.loads(built.body)["model"] == "upstream-name"
    for word in (b"caller-77", b"their-alias", b"their-profile", b"text_to_image", b"kind"):
        assert word not in built.body
    assert capability.encode() not in built.body


#: What each kind of input can be carried as.
FITS: list[tuple[Document, set[Capability]]] = [
    (A_TEXT, {CHAT, TEXT, EMBEDDING}),
    (TEXTS, {EMBEDDING}),
    # Whether a model takes what is in them is for resolution: the form is one.
    (HI, {CHAT, SEEING}),
    (SEEN, {CHAT, SEEING}),
    (HEARD, {CHAT, SEEING}),
    (INPUTS["image_messages"], {CHAT, SEEING}),
    (INPUTS["image"], {SEEING, SENSING}),
    (INPUTS["content_batch"], {SENSING}),
    (ASKED, {DECISION}),
    ({**ASKED, "images": [image()], "audio": [clip()]}, {DECISION}),
    (INPUTS["rerank"], {RERANK}),
    (INPUTS["audio"], set()),
]


@pytest.mark.parametrize(("wanted", "capabilities"), FITS)
def test_an_input_that_was_resolved_wrongly_is_a_fault_of_ours(
    wanted: Document, capabilities: set[Capability]
) -> None:
    for capability in BUILDERS:
        if capability in capabilities:
            call(wanted, capability)
        else:
            with pytest.raises(Unsuitable, match=str(wanted["kind"])):
                call(wanted, capability)


def test_an_image_without_options_is_a_fault_of_ours() -> None:
    with pytest.raises(Unsuitable):
        call(A_TEXT, DRAWING, options=OPTIONS["text_generation"])


def test_case_37_an_image_alone_is_described() -> None:
    built = text_call(INPUTS["image"], SEEING, upstream="served")
    assert (built.path, built.form) == ("/v1/chat/completions", TextForm.CHAT)
    assert built.body == (
        b'{"model": "served", "messages": [{"role": "user", "content": [{"type": "text", "text":'
        b' "Describe this image."}, {"type": "image_url", "image_url": {"url":'
        b' "data:image/png;base64,iVBORw0KGgo="}}]}], "max_tokens": 512, "stream": true, "n": 1}'
    )


@pytest.mark.parametrize(
    ("options", "tokens"),
    [(..., 512), (None, 512), ({"kind": "text_generation"}, 512),
     ({"kind": "text_generation", "max_tokens": 7}, 7)],
)  # fmt: skip
def test_a_description_is_bounded_unless_the_caller_bounds_it(options: Any, tokens: int) -> None:
    for wanted in (INPUTS["image"], SEEN):
        assert json.loads(text_call(wanted, SEEING, options=options).body)["max_tokens"] == tokens
    # Chat is never: that would cut what the caller has asked for.
    assert ("max_tokens" in json.loads(text_call(SEEN, CHAT, options=options).body)) is (
        tokens == 7
    )


def test_case_39_chat_and_description_send_the_same_messages() -> None:
    seen, told = (json.loads(text_call(SEEN, c).body) for c in (CHAT, SEEING))
    assert seen["messages"] == told["messages"]


def test_case_93_items_of_content() -> None:
    built = json_call(INPUTS["content_batch"], SENSING)
    assert built.path == "/v1/embeddings"
    text, picture = (
        {"type": "text", "text": "what is it?"},
        {
            "type": "image_url",
            "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="},
        },
    )
    wav = {"data": "HEADER" + clip()["data_base64"], "format": "wav"}
    heard = {"type": "input_audio", "input_audio": wav}
    assert json.loads(built.body) == {
        "model": "m",
        "input": [
            {"content": [text, picture, heard, {"type": "text", "text": "\n"}]},
            {"content": [text]},
        ],
        "encoding_format": "float",
    }
    vectors = b'{"data":[{"index":0,"embedding":[3,4,0]},{"index":1,"embedding":[0,0,1]}]}'
    assert built.project(vectors) == EmbeddingsResult([[3, 4, 0], [0, 0, 1]])
    alone = json_call(INPUTS["image"], SENSING, options={"kind": "embeddings", "dimensions": 2})
    assert json.loads(alone.body)["input"] == [{"content": [picture]}]
    one = b'{"data":[{"index":0,"embedding":[3,4,0]}]}'
    assert alone.project(one) == EmbeddingsResult([[0.6, 0.8]])


@pytest.mark.parametrize(
    ("options", "sent"),
    [({"seed": 7}, ', "seed": 7'), ({"seed": 0}, ', "seed": 0'), ({}, ""), ({"seed": None}, "")],
)
def test_case_60_an_image_is_asked_for(options: Document, sent: str) -> None:
    size = {"kind": "image_generation", "width": 16, "height": 12}
    built = json_call(A_TEXT, DRAWING, output="png_base64", options=size | options)
    assert built.path == "/v1/images/generations"
    assert built.body.decode() == (
        '{"model": "m", "prompt": "Hello", "n": 1, "size": "16x12", "response_format": "b64_json"'
        + sent
        + "}"
    )


def test_media_of_a_decision_stand_in_one_list_images_first() -> None:
    wanted = {**ASKED, "audio": [clip()], "images": [image(), image(encoding="jpeg")]}
    assert json.loads(json_call(wanted, DECISION).body)["images"] == [
        "data:image/png;base64,iVBORw0KGgo=",
        "data:image/jpeg;base64,iVBORw0KGgo=",
        "data:audio/wav;base64,HEADER" + clip()["data_base64"],
    ]
    assert "images" not in json.loads(json_call({**ASKED, "images": []}, DECISION).body)


def _sent(parsed: Operation) -> tuple[Capability, Document] | None:
    """The capability that carries such an input, and what of the caller's has to be in the body."""
    match parsed.input:
        case TextInput(text=text):
            return TEXT, {"prompt": text}
        case MessagesInput(messages=messages) if parsed.input.modalities() == {"text"}:
            turns = [
                {
                    "role": m.role,
                    "content": m.content
                    if isinstance(m.content, str)
                    else "".join(getattr(part, "text") for part in m.content),  # noqa: B009
                }
                for m in messages
            ]
            return CHAT, {"messages": turns}
        case TextBatchInput(texts=texts):
            return EMBEDDING, {"input": texts}
        case RerankInput(query=query, documents=documents):
            return RERANK, {"query": query, "documents": documents}
        case DecisionInput(state=state) if parsed.input.modalities() == {"text"}:
            return DECISION, {"state": "" if state is None else state}
        case _:
            return None


@settings(deadline=None, max_examples=40)
@given(body=documents)
def test_all_that_a_caller_says_goes_upstream_as_it_came(body: dict[str, Any]) -> None:
    parsed = parse_operation(raw(body))
    expected = _sent(parsed)
    if expected is None:
        return
    capability, members = expected
    sent = json.loads(build_call(parsed, capability, "m").body)
    assert {name: sent[name] for name in members} == members
    if isinstance(parsed.input, DecisionInput):
        assert list(sent["questions"]) == list(parsed.input.questions)
        for name, question in parsed.input.questions.items():
            if question.type != "noul":
                assert sent["questions"][name]["criteria"] == question.criteria


@settings(deadline=None, max_examples=40)
@given(body=documents, name=st.sampled_from(sorted(DECLARED)))
def test_whatever_resolves_can_be_sent(body: dict[str, Any], name: str) -> None:
    # With and without the name: without it more of what is drawn resolves.
    parsed = parse_operation(raw(body))
    for asked in (parsed, parsed.model_copy(update={"capability": None, "semantic_task": None})):
        try:
            found = resolve(asked, DECLARED[name])
        except ContractError:
            continue
        build_call(asked, found.capability, "m", sounds(asked))


@pytest.mark.parametrize("name", sorted(DECLARED))
def test_what_is_available_has_a_builder(name: str) -> None:
    available = {d.capability for d in DECLARED[name] if isinstance(d.availability, Available)}
    assert available <= set(BUILDERS)
