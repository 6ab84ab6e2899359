"""The JSON of discovery."""

from __future__ import annotations

import json

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
from pumas_server.contract.words import Capability, Output, SemanticTask

CHAT = Descriptor(
    capability=Capability.CHAT_GENERATION,
    semantic_task=SemanticTask.CHAT_GENERATION,
    input_formats=("messages_text",),
    output_formats=(Output.TEXT,),
    input_modalities=("text",),
    output_modalities=("text",),
    streaming=True,
    availability=Available(),
    option_bounds=(OptionBound(option="top_p", minimum=0, maximum=1),),
)
RERANK = CHAT.model_copy(
    update={
        "capability": Capability.RERANK,
        "availability": Unavailable(reason=UnavailableReason.MODEL_TASK_MISMATCH),
        "option_bounds": (),
    }
)

CHAT_JSON = {
    "capability": "chat_generation",
    "semantic_task": "chat_generation",
    "input_formats": ["messages_text"],
    "output_formats": ["text"],
    "input_modalities": ["text"],
    "output_modalities": ["text"],
    "streaming": True,
    "availability": {"state": "available"},
    "option_bounds": [{"option": "top_p", "minimum": 0, "maximum": 1}],
}


def test_capabilities() -> None:
    body = Capabilities(
        model="llm",
        profile="default",
        modalities=Modalities(input=("text",), output=("text",)),
        capabilities=(CHAT, RERANK),
    )
    assert json.loads(render(body)) == {
        "supported_contract_versions": [1],
        "model": "llm",
        "profile": "default",
        "max_request_bytes": 33554432,
        "max_response_bytes": 33554432,
        "max_stream_event_bytes": 262144,
        "modalities": {"input": ["text"], "output": ["text"]},
        "capabilities": [
            CHAT_JSON,
            {
                **CHAT_JSON,
                "capability": "rerank",
                "availability": {"state": "unavailable", "reason": "model_task_mismatch"},
                "option_bounds": [],
            },
        ],
    }


def test_served_models() -> None:
    entry = ServedModelEntry(
        model="llm",
        profile="p1",
        model_id="org/model",
        provider="llama_cpp",
        load_state="loaded",
        context_tokens=4096,
        profile_required=True,
        modalities=Modalities(),
        capabilities=(CHAT,),
        error=RowError(reason="EngineFailed", message="why"),
    )
    assert json.loads(render(ServedModels(models=(entry,)))) == {
        "supported_contract_versions": [1],
        "max_request_bytes": 33554432,
        "max_response_bytes": 33554432,
        "max_stream_event_bytes": 262144,
        "models": [
            {
                "model": "llm",
                "profile": "p1",
                "model_id": "org/model",
                "provider": "llama_cpp",
                "load_state": "loaded",
                "context_tokens": 4096,
                "profile_required": True,
                "modalities": {"input": [], "output": []},
                "capabilities": [CHAT_JSON],
                "error": {"reason": "EngineFailed", "message": "why"},
            }
        ],
    }


def test_the_words_of_unavailability() -> None:
    assert set(UnavailableReason) == {
        "unsupported_adapter",
        "unqualified_audio_runtime",
        "unknown_model_task",
        "model_task_mismatch",
        "runtime_unavailable",
    }
