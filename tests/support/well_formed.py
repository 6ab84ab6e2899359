"""All well-formed documents of contract v1, of every kind, as a strategy of hypothesis."""

from __future__ import annotations

import base64
from typing import Any

from hypothesis import strategies as st

from pumas_server.contract.words import Capability, Output, SemanticTask
from support.documents import Document, clip, text_part

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
LANGUAGES = (
    "en", "de", "fr", "it", "es", "pt", "el", "nl", "pl", "vi", "zh", "ar", "ja", "ko",
)  # fmt: skip
_words = st.text(alphabet=st.characters(codec="utf-8"), max_size=8)
_texts = st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=12).filter(
    lambda text: text.strip() != ""
)
_count = st.integers(1, 4_294_967_295)

_text_parts = st.builds(text_part, _texts)
_images = st.fixed_dictionaries(
    {
        "encoding": st.sampled_from(["png", "jpeg"]),
        "data_base64": st.binary(min_size=1, max_size=9).map(
            lambda b: base64.b64encode(b).decode()
        ),
    }
)
_clips = st.builds(
    clip,
    encoding=st.sampled_from(["pcm_s16le", "pcm_f32le"]),
    rate=st.integers(8_000, 192_000),
    channels=st.sampled_from([1, 2]),
    count=st.integers(1, 4),
)
_image_parts = _images.map(lambda found: {**found, "kind": "image"})
_audio_parts = _clips.map(lambda found: {**found, "kind": "audio"})
_parts = st.one_of(_text_parts, _image_parts, _audio_parts)


def _turns(role: str, parts: st.SearchStrategy[Document]) -> st.SearchStrategy[Document]:
    content = st.one_of(_texts, st.lists(parts, min_size=1, max_size=3))
    return st.fixed_dictionaries({"role": st.just(role), "content": content})


_messages = st.lists(
    st.one_of(
        _turns("user", _parts), _turns("system", _text_parts), _turns("assistant", _text_parts)
    ),
    max_size=2,
)


@st.composite
def _seen(draw: st.DrawFn, *, needed: bool) -> list[Document]:
    """A conversation, with an image where it is needed."""
    turns = draw(_messages)
    if needed or not turns:
        inside = draw(st.lists(_parts, max_size=2))
        if needed:
            inside.insert(draw(st.integers(0, len(inside))), draw(_image_parts))
        turn = {"role": "user", "content": inside or "hi"}
        turns.insert(draw(st.integers(0, len(turns))), turn)
    return turns


_json = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**300), 10**300),
        st.floats(allow_nan=False, allow_infinity=False),
        _words,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(_words, inner, max_size=3)
    ),
    max_leaves=6,
)
_questions = st.one_of(
    st.fixed_dictionaries(
        {
            "type": st.just("choice"),
            "instructions": _texts,
            "criteria": st.dictionaries(
                _words, st.one_of(st.none(), _words), min_size=1, max_size=3
            ),
        }
    ),
    st.fixed_dictionaries(
        {
            "type": st.just("score"),
            "instructions": _texts,
            "criteria": st.lists(_words, min_size=2, max_size=4),
        }
    ),
    st.fixed_dictionaries(
        {"type": st.just("noul"), "instructions": _texts},
        optional={
            "criteria": st.one_of(
                st.none(),
                st.fixed_dictionaries(
                    {},
                    optional={
                        "true": st.one_of(st.none(), _words),
                        "false": st.one_of(st.none(), _words),
                    },
                ),
            )
        },
    ),
)

#: Every well-formed map of questions.
questions: st.SearchStrategy[dict[str, Document]] = st.dictionaries(
    _words, _questions, min_size=1, max_size=3
)


def _kind(
    kind: str,
    members: dict[str, st.SearchStrategy[Any]],
    optional: dict[str, st.SearchStrategy[Any]] | None = None,
) -> st.SearchStrategy[Document]:
    null = {name: st.one_of(st.none(), some) for name, some in (optional or {}).items()}
    return st.fixed_dictionaries({"kind": st.just(kind), **members}, optional=null)


_inputs = st.one_of(
    _kind("text", {"text": _texts}),
    _kind("text_batch", {"texts": st.lists(_texts, min_size=1, max_size=3)}),
    _kind("messages", {"messages": _seen(needed=False)}),
    _kind("image_messages", {"messages": _seen(needed=True)}),
    _image_parts,
    _kind(
        "content_batch",
        {
            "items": st.lists(
                st.fixed_dictionaries({"parts": st.lists(_parts, min_size=1, max_size=3)}),
                min_size=1,
                max_size=2,
            )
        },
    ),
    _kind(
        "decision",
        {"state": _json, "questions": questions},
        {"images": st.lists(_images, max_size=2), "audio": st.lists(_clips, max_size=2)},
    ),
    _kind("rerank", {"query": _texts, "documents": st.lists(_texts, min_size=1, max_size=3)}),
    _audio_parts,
)
_image_options = _kind(
    "image_generation", {"width": _count, "height": _count}, {"seed": st.integers(0, 2**32 - 1)}
)
_options = st.one_of(
    _kind(
        "text_generation",
        {},
        {
            "max_tokens": _count,
            "temperature": st.one_of(st.integers(0, 2), st.floats(0, 2)),
            "top_p": st.one_of(st.integers(0, 1), st.floats(0, 1)),
        },
    ),
    _kind("embeddings", {}, {"dimensions": _count}),
    _image_options,
    _kind("decision", {}),
    _kind("rerank", {}, {"top_n": _count}),
    _kind(
        "audio_transcription",
        {},
        {
            "language": st.sampled_from(LANGUAGES),
            "max_output_tokens": st.just(512),
        },
    ),
)


@st.composite
def _documents(draw: st.DrawFn) -> Document:
    body: Document = draw(
        st.fixed_dictionaries(
            {
                "contract_version": st.just(1),
                "request_id": st.text(alphabet=_LETTERS + ":", min_size=1, max_size=128),
                "model": st.text(alphabet=_LETTERS + "/:@+ é", min_size=1, max_size=64).map(
                    lambda text: text.strip() or "m"
                ),
                "input": _inputs,
                "output": st.sampled_from([output.value for output in Output]),
            },
            optional={
                "profile": st.one_of(
                    st.none(), st.text(alphabet=_LETTERS, min_size=1, max_size=16)
                ),
                "capability": st.sampled_from([capability.value for capability in Capability]),
                "semantic_task": st.one_of(
                    st.none(), st.sampled_from([task.value for task in SemanticTask])
                ),
                "options": st.one_of(st.none(), _options),
                "stream": st.booleans(),
            },
        )
    )
    wants_image = body["output"] == "png_base64" or body.get("capability") == "image_generation"
    if wants_image and body.get("options") is None:
        body["options"] = draw(_image_options)
    return body


#: Every well-formed document of contract v1.
documents: st.SearchStrategy[Document] = _documents()
