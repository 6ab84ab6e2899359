"""What a running engine is, from its own answers: `/v1/models`, `/props`, `/slots`. Pure.

Answers differ between builds, so every member is read where it is and passed over where it is
not; the file's header speaks for an engine that does not. What a mode gives is not asked of the
engine, which says `text` for vectors and scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from pumas_crds.facts import FileFacts, Limit, RuntimeFacts
from pumas_crds.vocabulary import EngineMode

PLACEHOLDER_BUILD = "b0-unknown"
WORD_LIMIT = 128
WORDS_LIMIT = 16
#: Definitions of tools, and calls of them: a conversation with tools has both.
TOOLS = ("supports_tools", "supports_tool_calls")


def runtime_facts(
    models: object,
    props: object,
    slots: object,
    file: FileFacts,
    mode: EngineMode,
    program_build: str = "",
) -> RuntimeFacts:
    """The facts; an answer of None is one that the engine did not give.

    `program_build` names a program whose own answer is the placeholder of builds outside git.
    """
    model = _first(member(models, "data"))
    build = _text(member(props, "build_info"))
    if build in ("", PLACEHOLDER_BUILD) and program_build:
        build = program_build
    return RuntimeFacts(
        build=build[:WORD_LIMIT],
        context_tokens=_slot_context(slots, props),
        slots=_count(member(props, "total_slots")) or len(_items(slots)),
        input_modalities=_inputs(model, props, file),
        output_modalities=_outputs(model, mode),
        embedding_width=_width(model, file) if mode is EngineMode.EMBED else 0,
        device=_text(member(props, "device"))[:WORD_LIMIT],
        limits=_limits(member(props, "limits")) or None,
        tool_calls=(mode is EngineMode.GENERATE and all(map(_supports(props), TOOLS))) or None,
    )


def member(value: object, *path: str) -> object:
    """The member of nested objects at `path`; None when any of them is not there."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _supports(props: object) -> Callable[[str], bool]:
    """What the engine found its chat template able to render."""
    return lambda what: member(props, "chat_template_caps", what) is True


def _slot_context(slots: object, props: object) -> int:
    told = [_count(member(slot, "n_ctx")) for slot in _items(slots)]
    return min(told, default=0) or _count(member(props, "default_generation_settings", "n_ctx"))


def _inputs(model: object, props: object, file: FileFacts) -> tuple[str, ...]:
    if told := _words(member(model, "architecture", "input_modalities")):
        return told
    if file.input_modalities is not None:
        return file.input_modalities
    if props is None and file.projector is not None:
        return ("text", *file.projector.input_modalities)
    senses = (("vision", "image"), ("audio", "audio"), ("video", "video"))
    heard = (word for sense, word in senses if member(props, "modalities", sense) is True)
    return ("text", *heard)


def _outputs(model: object, mode: EngineMode) -> tuple[str, ...]:
    match mode:
        case EngineMode.GENERATE:
            return _words(member(model, "architecture", "output_modalities")) or ("text",)
        case EngineMode.EMBED:
            return ("vector",)
        case EngineMode.RERANK | EngineMode.DECIDE:
            return ("json",)
        case EngineMode.GENERATE_IMAGE:
            return ("image",)
        case _:
            assert_never(mode)


def _limits(told: object) -> tuple[Limit, ...]:
    """What the engine states of its limits; only well-formed ones count."""
    found = []
    for item in _items(told)[:WORDS_LIMIT]:
        option, minimum, maximum = (member(item, name) for name in ("option", "minimum", "maximum"))
        if isinstance(option, str) and type(minimum) is int and type(maximum) is int:
            found.append(Limit(option=option[:WORD_LIMIT], minimum=minimum, maximum=maximum))
    return tuple(found)


def _width(model: object, file: FileFacts) -> int:
    return _count(member(model, "meta", "n_embd")) or file.embedding_width


def _first(value: object) -> object:
    items = _items(value)
    return items[0] if items else None


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _count(value: object) -> int:
    return value if type(value) is int and value > 0 else 0


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _words(value: object) -> tuple[str, ...]:
    words = [item for item in _items(value) if isinstance(item, str)]
    return tuple(word[:WORD_LIMIT] for word in words[:WORDS_LIMIT])
