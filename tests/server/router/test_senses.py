"""Images and clips through the contract, over real sockets: the handed cases, by their numbers."""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64decode
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from support.documents import text_part
from support.eventually import eventually
from support.routers import SHARED_LOOP, RunningRouter, chat_operation, external, running_router
from support.senses import (
    audio_part,
    clip,
    image,
    image_part,
    jpeg,
    pcm,
    png,
    png_of_size,
    said,
    text_of,
)
from support.upstream import HELLO, Conversation, ScriptedUpstream

pytestmark = SHARED_LOOP

#: The models of the handed cases that take more than text, as an engine publishes them.
PUBLISHED = {
    "served": (["text"], ["text"]),
    "vlm": (["text", "image"], ["text"]),
    "omni": (["text", "image", "audio"], ["text"]),
    "mme": (["text", "image"], ["vector"]),
}
MODELS = {
    "object": "list",
    "data": [
        {
            "id": name,
            "object": "model",
            "architecture": {"input_modalities": takes, "output_modalities": gives},
        }
        for name, (takes, gives) in PUBLISHED.items()
    ],
}
TASKS = {"llm": ("text-generation", "served"), "img": ("text-to-image", "served")}
TASKS |= {"vlm": ("image-text-to-text", "vlm"), "omni": ("image-text-to-text", "omni")}
TASKS |= {"mme": ("feature-extraction", "mme")}

VECTORS = [[3.0, 4.0, 0.0], [0.0, 3.0, 4.0]]


async def answer(talk: Conversation) -> None:
    """A coherent answer of every route."""
    asked = talk.request.json
    match talk.request.path:
        case "/v1/chat/completions":
            await talk.stream(*HELLO)
        case "/v1/embeddings":
            count = len(asked["input"]) if isinstance(asked["input"], list) else 1
            data = [{"index": i, "embedding": VECTORS[i]} for i in range(count)]
            await talk.whole(200, json.dumps({"data": data}).encode())
        case "/v1/images/generations":
            width, height = map(int, asked["size"].split("x"))
            drawn = {"data": [{"b64_json": text_of(png(width, height))}], "seed": asked["seed"]}
            await talk.whole(200, json.dumps(drawn).encode())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(answer, models=MODELS).serving() as scripted:
        yield scripted


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(provider: ScriptedUpstream) -> AsyncIterator[RunningRouter]:
    records = [
        external(provider.url, alias, task, model=model) for alias, (task, model) in TASKS.items()
    ]
    async with running_router(*records) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def upstream(provider: ScriptedUpstream) -> ScriptedUpstream:
    provider.seen.clear()
    return provider


@pytest_asyncio.fixture(loop_scope="module")
async def router(served: RunningRouter) -> AsyncIterator[RunningRouter]:
    yield served
    await served.idle()
    assert served.router.media.busy == 0


def asked(model: str, wanted: Any, **changes: Any) -> dict[str, Any]:
    """An operation that names no capability."""
    return chat_operation(**{"model": model, "input": wanted, "capability": ..., "options": ...,
                             **changes})  # fmt: skip


def text_of_answer(status: int, body: Any) -> str:
    assert status == 200, body
    assert body["result"]["kind"] == "text"
    return str(body["result"]["text"])


async def not_admitted(
    router: RunningRouter, upstream: ScriptedUpstream, body: Any, status: int, code: str
) -> str:
    """The message of a refusal before any provider was connected to."""
    connections = len(upstream.uses)
    told, answered = await router.operate(body)
    assert (told, answered["error"]["code"]) == (status, code), answered
    assert answered["error"]["outcome"] == "not_admitted"
    assert answered["request_id"] == "r1"
    assert (upstream.seen, len(upstream.uses)) == ([], connections)
    return str(answered["error"]["message"])


async def test_case_37_an_image_is_described(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    drawn = png()
    told = await router.operate(asked("vlm", image_part(drawn)))
    assert text_of_answer(*told) == "hello"
    (seen,) = upstream.seen
    assert seen.path == "/v1/chat/completions"
    text, picture = seen.json["messages"][0]["content"]
    assert text == {"type": "text", "text": "Describe this image."}
    assert picture == {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64," + text_of(drawn)},
    }


MIXED = said(text_part("a"), image_part(), text_part("b"), image_part(encoding="jpeg"))


@pytest.mark.parametrize("kind", ["messages", "image_messages"])
async def test_case_38_images_among_texts(
    router: RunningRouter, upstream: ScriptedUpstream, kind: str
) -> None:
    turns = [
        {"role": "system", "content": "be short"},
        *MIXED["messages"],
        {"role": "assistant", "content": "yes"},
    ]
    told = await router.operate(asked("vlm", {"kind": kind, "messages": turns}))
    assert text_of_answer(*told) == "hello"
    sent = upstream.seen[0].json["messages"]
    assert [turn["role"] for turn in sent] == ["system", "user", "assistant"]
    parts = sent[1]["content"]
    assert [part["type"] for part in parts] == ["text", "image_url", "text", "image_url"]
    assert [part["text"] for part in parts[::2]] == ["a", "b"]
    urls = [part["image_url"]["url"].partition(",") for part in parts[1::2]]
    assert [head for head, _, _ in urls] == ["data:image/png;base64", "data:image/jpeg;base64"]
    assert [b64decode(raw) for _, _, raw in urls] == [png(), jpeg()]
    # It was image_to_text: that one bounds what it generates.
    assert upstream.seen[0].json["max_tokens"] == 512


async def test_case_39_the_same_as_chat(router: RunningRouter, upstream: ScriptedUpstream) -> None:
    body = asked("vlm", MIXED, capability="chat_generation")
    assert text_of_answer(*await router.operate(body)) == "hello"
    assert "max_tokens" not in upstream.seen[0].json
    found = await router.stream(body)
    assert found[0][1]["capability"] == "chat_generation"
    assert found[-1][0] == "completed"
    assert [seen.json["messages"] for seen in upstream.seen] == [
        upstream.seen[0].json["messages"]
    ] * 2


async def test_case_40_an_image_to_a_model_of_text(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    for wanted in (MIXED, image_part()):
        body = asked("llm", wanted)
        told = await not_admitted(router, upstream, body, 422, "unsupported_modality")
        assert "chat_generation takes messages_text (modalities: text)" in told


def crc_flipped(raw: bytes) -> bytes:
    changed = bytearray(raw)
    changed[29] ^= 1
    return bytes(changed)


def animated(raw: bytes) -> bytes:
    content = b"acTL" + struct.pack(">II", 1, 0)
    chunk = struct.pack(">I", 8) + content + struct.pack(">I", zlib.crc32(content))
    return raw[:33] + chunk + raw[33:]


def broken_stream(raw: bytes) -> bytes:
    size = struct.unpack(">I", raw[33:37])[0]
    content = b"IDAT" + b"\x78\x9c" + b"\xff" * (size - 2)
    return raw[:37] + content + struct.pack(">I", zlib.crc32(content)) + raw[41 + size + 4 :]


BROKEN = {
    "a png declared a jpeg": image_part(png(), "jpeg"),
    "a jpeg declared a png": image_part(jpeg(), "png"),
    "a truncated png": image_part(png()[:-5]),
    "a png with a wrong checksum": image_part(crc_flipped(png())),
    "a png with a trailing byte": image_part(png() + b"\0"),
    "an animated png": image_part(animated(png())),
    "a png with a broken stream": image_part(broken_stream(png())),
    "a truncated jpeg": image_part(jpeg()[:-20], "jpeg"),
    "a jpeg cut within its scan and closed": image_part(jpeg()[:-40] + b"\xff\xd9", "jpeg"),
    "a jpeg with a trailing byte": image_part(jpeg() + b"\0", "jpeg"),
    "nothing": image_part(b""),
    "base64 without its padding": {**image_part(), "data_base64": text_of(png()).rstrip("=") + "A"},
    "base64 with a line break": {**image_part(), "data_base64": text_of(png())[:-4] + "\n" + "AAA"},
    "a data url": {**image_part(), "data_base64": "data:image/png;base64," + text_of(png())},
}


@pytest.mark.parametrize("name", BROKEN)
async def test_case_41_what_is_no_sound_image(
    router: RunningRouter, upstream: ScriptedUpstream, name: str
) -> None:
    # Looked at before the model is: nobody serves the last.
    for model in ("vlm", "llm", "nobody"):
        for wanted in (BROKEN[name], said(text_part(), BROKEN[name])):
            body = asked(model, wanted)
            told = await not_admitted(router, upstream, body, 400, "invalid_request")
            assert "`input" in told, told


def many(count: int, part: Any) -> dict[str, Any]:
    return said(*[part] * count)


TOO_MUCH: dict[str, tuple[dict[str, Any], str, str]] = {
    "five images": (many(5, image_part()), "image_count", "5"),
    "a large image": (said(image_part(bytes(8_388_609))), "image_bytes", "8388609"),
    "large images together": (many(3, image_part(bytes(6_000_000))), "total_image_bytes",
                              "18000000"),
    "a wide image": (said(image_part(png_of_size(4097, 1))), "width", "4097"),
    "a high image": (said(image_part(png_of_size(1, 4097))), "height", "4097"),
    "too many pixels": (said(image_part(png_of_size(2049, 2048))), "image_pixels", "4196352"),
    "129 parts": (said(*[text_part()] * 128, image_part()), "content_parts", "129"),
    "129 messages": (
        {"kind": "messages", "messages": [*[{"role": "user", "content": "a"}] * 128,
                                          *said(image_part())["messages"]]},
        "message_count", "129",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOO_MUCH)
async def test_case_44_more_than_may_be_names_bound_and_value(
    router: RunningRouter, upstream: ScriptedUpstream, name: str
) -> None:
    wanted, bound, value = TOO_MUCH[name]
    body = asked("vlm", wanted)
    told = await not_admitted(router, upstream, body, 413, "request_limit")
    assert bound in told and value in told


async def test_as_much_as_may_be_passes(router: RunningRouter, upstream: ScriptedUpstream) -> None:
    for wanted in (
        many(4, image_part()),
        said(image_part(png_of_size(4096, 1024))),
        said(*[text_part()] * 127, image_part()),
    ):
        assert text_of_answer(*await router.operate(asked("vlm", wanted))) == "hello"


@pytest.mark.parametrize(
    "wanted",
    [
        {"kind": "messages", "messages": [{"role": "system", "content": [image_part()]}]},
        {"kind": "messages", "messages": [{"role": "assistant", "content": [image_part()]}]},
        {"kind": "image_messages", "messages": [{"role": "user", "content": [text_part()]}]},
        {"kind": "image_messages", "messages": [{"role": "user", "content": "look"}]},
    ],
)
async def test_case_46_images_are_the_users(
    router: RunningRouter, upstream: ScriptedUpstream, wanted: Any
) -> None:
    await not_admitted(router, upstream, asked("vlm", wanted), 400, "invalid_request")


@pytest.mark.parametrize("floats", [False, True])
async def test_case_49_a_clip_goes_as_wav(
    router: RunningRouter, upstream: ScriptedUpstream, floats: bool
) -> None:
    part = {"kind": "audio", **clip(800, 22_050, 2, floats=floats)}
    told = await router.operate(asked("omni", said(part, text_part("what?"))))
    assert text_of_answer(*told) == "hello"
    heard, text = upstream.seen[0].json["messages"][0]["content"]
    assert text == {"type": "text", "text": "what?"}
    file = b64decode(heard["input_audio"]["data"], validate=True)
    assert (heard["type"], heard["input_audio"]["format"]) == ("input_audio", "wav")
    assert (file[:4], file[8:12]) == (b"RIFF", b"WAVE")
    assert struct.unpack_from("<HHI", file, 20) == (3 if floats else 1, 2, 22_050)
    assert file.endswith(pcm(800, 2, floats=floats))
    # Chat, as any audio makes it: nothing bounds its length.
    assert "max_tokens" not in upstream.seen[0].json


NOT_A_NUMBER = text_of(struct.pack("<3f", 0.0, float("nan"), 0.0))
LOUD = text_of(struct.pack("<3f", 0.0, 1.01, 0.0))
UNSOUND = {
    "a low rate": said({"kind": "audio", **clip(3, 7999)}),
    "a high rate": said({"kind": "audio", **clip(3, 192_001)}),
    "three channels": said({"kind": "audio", **clip(2, channels=3)}),
    "a frame too long": said({"kind": "audio", **clip(30 * 8000 + 1, 8000)}),
    "two bytes too many": said(audio_part(sample_count=1599)),
    "two bytes too few": said(audio_part(sample_count=1601)),
    "over one": said({"kind": "audio", **clip(3, floats=True), "data_base64": LOUD}),
    "no number": said({"kind": "audio", **clip(3, floats=True), "data_base64": NOT_A_NUMBER}),
    "base64 with bits too many": said({"kind": "audio", **clip(2), "data_base64": "AAAAAB=="}),
    "base64 without padding": said({"kind": "audio", **clip(2), "data_base64": "AAAAAA"}),
    "of an assistant": {"kind": "messages",
                        "messages": [{"role": "assistant", "content": [audio_part()]}]},
    "of a system": {"kind": "messages",
                    "messages": [{"role": "system", "content": [audio_part()]}]},
}  # fmt: skip


@pytest.mark.parametrize("name", UNSOUND)
async def test_case_50_what_is_no_sound_clip(
    router: RunningRouter, upstream: ScriptedUpstream, name: str
) -> None:
    for model in ("omni", "llm"):
        body = asked(model, UNSOUND[name])
        await not_admitted(router, upstream, body, 400, "invalid_request")


@pytest.mark.parametrize(
    ("wanted", "bound", "value"),
    [
        (many(5, audio_part()), "audio_count", "5"),
        (
            many(2, {"kind": "audio", **clip(30 * 96_000, 96_000, 2)}),
            "total_audio_bytes",
            "23040000",
        ),
    ],
)
async def test_case_51_more_audio_than_may_be(
    router: RunningRouter, upstream: ScriptedUpstream, wanted: Any, bound: str, value: str
) -> None:
    body = asked("omni", wanted)
    told = await not_admitted(router, upstream, body, 413, "request_limit")
    assert bound in told and value in told


@pytest.mark.parametrize("output", ["text", "labels"])
@pytest.mark.parametrize("model", ["omni", "llm"])
async def test_case_52_audio_alone_is_reserved(
    router: RunningRouter, upstream: ScriptedUpstream, model: str, output: str
) -> None:
    named = "audio_transcription" if output == "text" else "audio_classification"
    for capability in (named, ...):
        body = asked(model, audio_part(), output=output, capability=capability)
        told = await not_admitted(router, upstream, body, 503, "capability_unavailable")
        assert "unqualified_audio_runtime" in told
    body = asked(model, audio_part(sample_rate_hz=1), output=output, capability=named)
    await not_admitted(router, upstream, body, 400, "invalid_request")


def drawing(**options: Any) -> dict[str, Any]:
    size = {"kind": "image_generation", "width": 16, "height": 12, **options}
    return asked(
        "img", {"kind": "text", "text": "a cat"}, output="png_base64",
        options={name: value for name, value in size.items() if value is not ...},
    )  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [
        {**drawing(), "options": None},
        {name: value for name, value in drawing().items() if name != "options"},
        drawing(width=0),
        drawing(height=...),
        drawing(width=16.0),
        drawing(seed=-1),
        drawing(seed=2**32),
        {**drawing(), "input": {"kind": "text", "text": " \t"}},
    ],
)
async def test_case_59_what_asks_for_no_image(
    router: RunningRouter, upstream: ScriptedUpstream, body: Any
) -> None:
    for model in ("img", "llm"):
        await not_admitted(router, upstream, body | {"model": model}, 400, "invalid_request")


async def test_case_59_a_prompt_over_its_bound(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    body = {**drawing(), "input": {"kind": "text", "text": "é" * 4001}}
    told = await not_admitted(router, upstream, body, 400, "invalid_request")
    assert "4001" in told and "4000" in told


async def test_case_60_an_image_of_the_asked_size(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    status, body = await router.operate(drawing(seed=7))
    assert status == 200, body
    assert body == {
        "contract_version": 1,
        "request_id": "r1",
        "result": {"kind": "image", "png_base64": text_of(png(16, 12)), "seed": 7},
    }
    (seen,) = upstream.seen
    assert (seen.path, seen.json["size"]) == ("/v1/images/generations", "16x12")


async def test_a_prompt_of_4000_characters_passes(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    body = {**drawing(seed=1), "input": {"kind": "text", "text": "é" * 4000}}
    assert (await router.operate(body))[0] == 200
    assert upstream.seen[0].json["prompt"] == "é" * 4000


async def test_case_83_what_a_seeing_models_descriptor_bounds(router: RunningRouter) -> None:
    _, _, raw = await router.get("/v1/capabilities?model=vlm")
    body = json.loads(raw)
    assert body["modalities"] == {"input": ["text", "image"], "output": ["text"]}
    for descriptor in body["capabilities"]:
        stated = {b["option"]: (b["minimum"], b["maximum"]) for b in descriptor["option_bounds"]}
        assert len(stated) == len(descriptor["option_bounds"])
        assert all(low <= high for low, high in stated.values())
        if "image" in descriptor["input_modalities"]:
            assert {name: high for name, (_, high) in stated.items()}.items() >= {
                "image_bytes": 8_388_608,
                "total_image_bytes": 16_777_216,
                "image_count": 4,
                "image_pixels": 4_194_304,
                "width": 4096,
                "height": 4096,
                "message_count": 128,
                "content_parts": 128,
            }.items()
    shows = [d["capability"] for d in body["capabilities"] if "image" in d["input_modalities"]]
    assert shows == ["chat_generation", "image_to_text", "multimodal_embedding", "decision"]


async def test_case_93_items_of_text_and_image_are_embedded(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    items = [{"parts": [text_part("a"), image_part()]}, {"parts": [text_part("b")]}]
    wanted = {"kind": "content_batch", "items": items}
    status, body = await router.operate(asked("mme", wanted, output="embeddings_float32"))
    assert status == 200, body
    assert body["result"] == {"kind": "embeddings", "vectors": VECTORS}
    (seen,) = upstream.seen
    assert seen.path == "/v1/embeddings"
    first, second = seen.json["input"]
    assert [part["type"] for part in first["content"]] == ["text", "image_url"]
    assert second == {"content": [{"type": "text", "text": "b"}]}
    cut = await router.operate(
        asked("mme", wanted, output="embeddings_float32",
              options={"kind": "embeddings", "dimensions": 2})
    )  # fmt: skip
    assert cut[1]["result"]["vectors"][0] == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize(
    ("wanted", "output"),
    [
        ({"kind": "content_batch", "items": [{"parts": [text_part(), image_part()]}]},
         "embeddings_float32"),
        ({"kind": "rerank", "query": "q", "documents": ["d"]}, "relevance_scores"),
        ({"kind": "decision", "state": "s", "images": [image()],
          "questions": {"q": {"type": "noul", "instructions": "i"}}}, "decisions"),
    ],
)  # fmt: skip
async def test_case_94_structured_inputs_to_a_model_of_text(
    router: RunningRouter, upstream: ScriptedUpstream, wanted: Any, output: str
) -> None:
    body = asked("llm", wanted, output=output)
    told = await not_admitted(router, upstream, body, 422, "unsupported_modality")
    assert "text_generation takes text (modalities: text) and gives text" in told


async def test_a_provider_that_fails_with_an_image_is_asked_once(
    router: RunningRouter, upstream: ScriptedUpstream
) -> None:
    async def refuse(talk: Conversation) -> None:
        await talk.whole(500, b'{"error": {"message": "no projector"}}')

    upstream.script = refuse
    try:
        status, body = await router.operate(asked("vlm", image_part()))
    finally:
        upstream.script = answer
    assert (status, body["error"]["code"]) == (502, "provider_failure")
    assert body["error"]["outcome"] == "unknown"
    assert "no projector" in body["error"]["message"]
    await eventually(lambda: len(upstream.seen) == 1, "one POST")
