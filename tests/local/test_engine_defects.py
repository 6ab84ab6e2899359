"""What the engine does wrong when it is asked as it should not be: none of it reaches a caller.

Each test is a measured defect of the real engine that a request of text could run into, through one
`pumas serve`. What is asked of the engine past the router shows that the defect is still there.
"""

from __future__ import annotations

import json
import math
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import gguf
import httpx
import psutil
import pytest

from support.engines import engine_client, plain_engine
from support.senses import png, text_of, wav
from support.serve import Serving, manifest, serve
from support.tiny_models import build_chat, build_encoder
from support.worker import until

#: One server for the module, hence one test process.
pytestmark = pytest.mark.xdist_group("engine-defects")

LONG_CONTEXT = 32768
#: A greedy continuation of this goes on until the context is full.
ENDLESS = "hello"
OPENAI_BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1},
    "/v1/completions": {"prompt": "hi", "max_tokens": 1},
    "/v1/embeddings": {"input": "hi"},
    "/v1/rerank": {"query": "hi", "documents": ["a"]},
}
MODE_ROUTES = {
    "chat": {"/v1/chat/completions", "/v1/completions"},
    "decoder": {"/v1/embeddings"},
    "emb": {"/v1/embeddings"},
    "rr": {"/v1/rerank"},
    "dec": set(),
}


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory, tiny_models: Path) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("defects")
    build_chat(folder / "long-chat.gguf", context=LONG_CONTEXT)
    build_encoder(folder / "long-embed.gguf", gguf.PoolingType.MEAN, context=2048)
    build_encoder(folder / "long-rerank.gguf", gguf.PoolingType.RANK, context=2048)

    def tiny(name: str) -> dict[str, str]:
        return {"path": str(tiny_models / f"{name}.gguf")}

    def long(name: str) -> dict[str, str]:
        return {"path": f"long-{name}.gguf"}

    documents = [
        manifest("chat", source=tiny("tiny-chat"), engine={"contextTokens": 4096}),
        manifest(
            "decoder",
            source=tiny("tiny-chat"),
            task="feature-extraction",
            engine={"parallel": 4},
        ),
        manifest("emb", source=long("embed")),
        manifest("rr", source=long("rerank")),
        manifest("dec", source=tiny("tiny-decision")),
        manifest("endless", source=long("chat"), engine={"contextTokens": LONG_CONTEXT}),
        manifest("headless", source=tiny("tiny-rerank-headless")),
        manifest("embedder-as-reranker", source=tiny("tiny-embed"), task="text-ranking"),
        manifest("llm-as-reranker", source=tiny("tiny-chat"), task="text-ranking"),
    ]
    with serve(folder, *documents) as running:
        for alias, capability in (
            ("chat", "text_generation"),
            ("decoder", "text_embedding"),
            ("emb", "text_embedding"),
            ("rr", "rerank"),
            ("dec", "decision"),
            ("endless", "text_generation"),
        ):
            running.until_available(alias, capability)
        engines = {alias: running.engine(alias).pid for alias in MODE_ROUTES}
        yield running
        assert {alias: running.engine(alias).pid for alias in MODE_ROUTES} == engines
        assert running.end() == 0
        assert running.survivors() == []


def operate(serving: Serving, model: str, output: str, content: Any) -> httpx.Response:
    body = {"contract_version": 1, "request_id": "d:1", "model": model, "output": output}
    return serving.client.post(
        f"{serving.url}/v1/model-operations", json={**body, "input": content}
    )


def embed(serving: Serving, model: str, texts: list[str]) -> httpx.Response:
    return operate(serving, model, "embeddings_float32", {"kind": "text_batch", "texts": texts})


def rerank(serving: Serving, document: str) -> httpx.Response:
    content = {"kind": "rerank", "query": "a", "documents": ["short", document]}
    return operate(serving, "rr", "relevance_scores", content)


def decide(serving: Serving, state: str) -> httpx.Response:
    question = {"type": "noul", "instructions": "is it?"}
    content = {"kind": "decision", "state": state, "questions": {"q": question}}
    return operate(serving, "dec", "decisions", content)


def cosine(a: list[float], b: list[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b))


def is_refused_unseen(answer: httpx.Response) -> bool:
    return answer.headers["x-pumas-outcome"] == "not_admitted"


BATCH = [
    "hello world, this is text",
    "a",
    "the quick brown fox jumps over the lazy dog and runs on",
]


def test_embeddings_of_a_decoder_with_several_slots(serving: Serving) -> None:
    """§2: without one cache for all slots, texts of one batch change each other's vectors."""
    together = embed(serving, "decoder", BATCH).json()["result"]["vectors"]
    for text, vector in zip(BATCH, together, strict=True):
        alone = embed(serving, "decoder", [text]).json()["result"]["vectors"][0]
        assert cosine(vector, alone) >= 0.9999
    with engine_client(serving.engine("decoder")) as engine:
        assert len(engine.get("/slots").json()) == 4


def test_the_engine_alone_gets_them_wrong(tiny_models: Path) -> None:
    """Else the test above proves nothing: when this fails, an engine without the defect came."""
    flags = ("--embeddings", "--pooling", "mean", "-np", "4", "-c", "8192")
    with plain_engine(tiny_models / "tiny-chat.gguf", *flags) as engine:

        def vectors(texts: list[str]) -> list[list[float]]:
            given = engine.client.post("/v1/embeddings", json={"input": texts}).json()
            return [entry["embedding"] for entry in given["data"]]

        alone = [vectors([text])[0] for text in BATCH]
        assert min(map(cosine, vectors(BATCH), alone)) < 0.9999


@pytest.mark.parametrize("alias", ["headless", "embedder-as-reranker", "llm-as-reranker"])
def test_a_reranker_without_a_head(serving: Serving, alias: str) -> None:
    """§5: it would answer 200 with scores that mean nothing."""
    row = serving.until_row(alias, load_state="failed")
    assert row["error"]["reason"] == "MissingRankingHead"
    content = {"kind": "rerank", "query": "a", "documents": ["b"]}
    answer = operate(serving, alias, "relevance_scores", content)
    assert answer.status_code in (422, 503)
    assert is_refused_unseen(answer)
    asked = {"model": alias, "query": "a", "documents": ["b"]}
    openai = serving.client.post(f"{serving.url}/v1/rerank", json=asked)
    assert openai.status_code in (400, 500)
    assert is_refused_unseen(openai)


@pytest.mark.parametrize("units", [1, 250, 1000])
def test_inputs_within_the_context_are_answered(serving: Serving, units: int) -> None:
    """§6: the engine's own batch of 512 tokens refuses longer ones with 500.

    A unit is two tokens or more here, so the last is far over 512 and within 2048; the decision
    model has half the context.
    """
    answers = [
        embed(serving, "emb", ["a " * units]),
        embed(serving, "decoder", ["a" * (2 * units - 10 if units > 1 else 1)]),
        rerank(serving, "a " * units),
        decide(serving, "ab" * (units // 3 + 1)),
    ]
    assert [answer.status_code for answer in answers] == [200] * 4
    if units == 1000:
        with engine_client(serving.engine("emb")) as engine:
            told = engine.post("/v1/embeddings", json={"input": "a " * units}).json()
            assert told["usage"]["total_tokens"] > 512


def test_inputs_over_the_context_fail_with_the_engines_reason(serving: Serving) -> None:
    """§6: the engine calls it a fault of its own; the caller learns what was too large."""
    answers = [
        embed(serving, "emb", ["short", "a " * 3000]),
        embed(serving, "decoder", ["a" * 3000]),
        rerank(serving, "a " * 3000),
        decide(serving, "ab" * 1000),
        serving.operate(model="chat", input={"kind": "text", "text": "a" * 3000}),
        serving.operate(model="chat", input={"kind": "text", "text": "a" * 3000}, stream=True),
    ]
    for answer in answers:
        assert answer.status_code == 502
        assert answer.headers["x-pumas-outcome"] == "unknown"
        assert answer.headers["x-should-retry"] == "false"
        error = answer.json()["error"]
        assert (error["code"], error["outcome"]) == ("provider_failure", "unknown")
        assert "tokens" in error["message"]
    assert embed(serving, "emb", ["short"]).status_code == 200
    assert decide(serving, "a").status_code == 200
    assert serving.operate(model="chat").status_code == 200


@pytest.mark.parametrize("alias", MODE_ROUTES)
def test_one_mode_for_each_engine(serving: Serving, alias: str) -> None:
    """§6, §8.15: what the engine was not started for it would answer with an error of its own."""
    for path, asked in OPENAI_BODIES.items():
        answer = serving.client.post(serving.url + path, json={"model": alias, **asked})
        if path in MODE_ROUTES[alias]:
            assert answer.status_code == 200
            continue
        assert (answer.status_code, answer.json()["error"]["code"]) == (
            400,
            "endpoint_unavailable",
        )
        assert is_refused_unseen(answer)
    row = serving.rows()[alias]
    offered = [c for c in row["capabilities"] if c["availability"]["state"] == "available"]
    assert len({tuple(c["output_formats"]) for c in offered}) == 1


def test_a_conversation_with_what_does_not_converse(serving: Serving) -> None:
    for alias in ("decoder", "emb", "rr", "dec"):
        messages = [{"role": "user", "content": "hi"}]
        answer = operate(serving, alias, "text", {"kind": "messages", "messages": messages})
        assert (answer.status_code, answer.json()["error"]["code"]) == (
            422,
            "unsupported_modality",
        )
        assert is_refused_unseen(answer)


@pytest.mark.parametrize("path", ["/v1/model-operations", *OPENAI_BODIES])
@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"model": "chat",}', b"[]", b'{"model": "chat"} x', b"\xff{}"]
)
def test_what_is_no_json_reaches_no_engine(serving: Serving, path: str, body: bytes) -> None:
    answer = serving.client.post(serving.url + path, content=body)
    assert answer.status_code == 400
    assert is_refused_unseen(answer)


def test_blank_inputs_and_unknown_models(serving: Serving) -> None:
    """§8: the engine makes a vector of nothing, and takes any name for its own."""
    blank = [
        embed(serving, "emb", [""]),
        embed(serving, "emb", ["a", " \n"]),
        serving.operate(model="chat", input={"kind": "text", "text": "\t"}),
    ]
    for answer in blank:
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_request")
        assert is_refused_unseen(answer)
    with engine_client(serving.engine("emb")) as engine:
        asked = {"model": "anything", "input": ""}
        assert engine.post("/v1/embeddings", json=asked).status_code == 200
    for path, members in OPENAI_BODIES.items():
        answer = serving.client.post(serving.url + path, json={"model": "anything", **members})
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
        assert is_refused_unseen(answer)
    assert serving.operate(model="anything").status_code == 404


def slots_at_work(engine: httpx.Client) -> int:
    return sum(slot["is_processing"] for slot in engine.get("/slots").json())


class EndlessStream:
    """A stream that is read in the background for as long as the block lasts."""

    def __init__(self, serving: Serving) -> None:
        body = {
            "model": "endless",
            "prompt": ENDLESS,
            "max_tokens": LONG_CONTEXT,
            "temperature": 0,
            "stream": True,
        }
        self._client = httpx.Client(timeout=60)
        self._request = self._client.build_request(
            "POST", f"{serving.url}/v1/completions", json=body
        )
        self._over = threading.Event()
        self.pieces = 0
        self.ended = False
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> EndlessStream:
        self._thread.start()
        until(lambda: self.pieces > 3, "a stream that runs")
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._client.close()

    def _read(self) -> None:
        answer = self._client.send(self._request, stream=True)
        with closing(answer):
            for _ in answer.iter_raw():
                self.pieces += 1
                if self._over.is_set():
                    return
        self.ended = True


@pytest.mark.parametrize("form", ["finite", "stream"])
def test_a_caller_that_leaves_a_busy_engine_frees_its_slot(serving: Serving, form: str) -> None:
    """§1: an engine that works for others does not see that a caller without a stream has left.

    It would go on for minutes; the router asks for a stream, whatever the caller asked for.
    """
    body = json.dumps(
        {
            "contract_version": 1,
            "request_id": "leave:1",
            "model": "endless",
            "capability": "text_generation",
            "input": {"kind": "text", "text": ENDLESS},
            "output": "text",
            "options": {
                "kind": "text_generation",
                "max_tokens": LONG_CONTEXT - 100,
                "temperature": 0,
            },
            "stream": form == "stream",
        }
    ).encode()
    with EndlessStream(serving) as other, engine_client(serving.engine("endless")) as engine:
        assert slots_at_work(engine) == 1
        with post_and_wait(serving, "/v1/model-operations", body):
            until(lambda: slots_at_work(engine) == 2, "both calls at work")
        left = time.monotonic()
        until(lambda: slots_at_work(engine) == 1, "the free slot", 3)
        assert time.monotonic() - left < 3
        before = other.pieces
        until(lambda: other.pieces > before, "the other stream going on")
        assert not other.ended
    with engine_client(serving.engine("endless")) as engine:
        until(lambda: slots_at_work(engine) == 0, "an idle engine", 3)


def post_and_wait(serving: Serving, path: str, body: bytes) -> closing[socket.socket]:
    """A POST on a socket of its own, whose answer nobody reads."""
    url = httpx.URL(serving.url)
    caller = socket.create_connection((url.host, url.port or 80))
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    caller.sendall(head.encode() + body)
    return closing(caller)


def test_open_calls_do_not_starve_what_watches_the_pod(serving: Serving) -> None:
    """§8.11: with the engine's own number of threads, 12 open calls make `/health` time out."""
    engine = serving.engine("endless")
    supervisor = psutil.Process(engine.ppid()).environ()["SUPERVISOR_PORT"]
    body = json.dumps(
        {
            "model": "endless",
            "prompt": ENDLESS,
            "max_tokens": LONG_CONTEXT,
            "temperature": 0,
            "stream": True,
        }
    ).encode()
    pod = f"http://127.0.0.1:{supervisor}"
    with ExitStack() as callers, engine_client(engine) as direct:
        for _ in range(20):
            callers.enter_context(post_and_wait(serving, "/v1/completions", body))

        serving.until_in_flight("endless", 20)
        for _ in range(5):
            for ask in (
                lambda: direct.get("/health", timeout=2),
                lambda: serving.client.get(f"{pod}/healthz", timeout=2),
                lambda: serving.client.get(f"{pod}/readyz", timeout=2),
                lambda: serving.client.get(f"{serving.url}/healthz", timeout=2),
            ):
                assert ask().status_code == 200
            told = serving.client.get(f"{pod}/descriptor", timeout=2).json()
            assert (told["state"], told["restarts"]) == ("ready", 0)
        until(
            lambda: serving.client.get(f"{pod}/descriptor").json()["busy"] == 4, "all slots at work"
        )
    with engine_client(engine) as direct:
        until(lambda: slots_at_work(direct) == 0, "an idle engine", 10)
    assert serving.operate(model="endless").status_code == 200


def test_the_engines_key_is_the_routers_alone(serving: Serving) -> None:
    """§8.13: the engine lets every web page ask it, so it has a key; callers need none of it."""
    with engine_client(serving.engine("emb")) as engine:
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            engine.headers.pop("Authorization", None)
            engine.headers.update(headers)
            assert engine.get("/health").status_code == 200
            for path in ("/slots", "/props", "/metrics", "/v1/models"):
                assert engine.get(path).status_code == 401, path
            for path, body in OPENAI_BODIES.items():
                assert engine.post(path, json=body).status_code == 401
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"X-Api-Key": "wrong"}):
        asked = {"model": "emb", "input": "a"}
        answer = serving.client.post(f"{serving.url}/v1/embeddings", json=asked, headers=headers)
        assert answer.status_code == 200
        content = {"kind": "text_batch", "texts": ["a"]}
        body = {"contract_version": 1, "request_id": "k", "model": "emb", "input": content}
        answer = serving.client.post(
            f"{serving.url}/v1/model-operations",
            json={**body, "output": "embeddings_float32"},
            headers=headers,
        )
        assert answer.status_code == 200


def test_the_context_is_what_the_model_was_trained_for(serving: Serving) -> None:
    """§8.14: 4096 were asked for and the engine says nothing of giving less."""
    row = serving.rows()["chat"]
    assert row["context_tokens"] == 2048
    for capability in row["capabilities"][:2]:
        bounds = {b["option"]: b["maximum"] for b in capability["option_bounds"]}
        assert bounds["max_tokens"] == 2048
    over = {"kind": "text_generation", "max_tokens": 2049}
    assert serving.operate(model="chat", options=over).status_code == 400
    with engine_client(serving.engine("chat")) as engine:
        assert {slot["n_ctx"] for slot in engine.get("/slots").json()} == {2048}


def test_every_slot_has_the_whole_context(serving: Serving) -> None:
    """Four callers of one model, each with nearly half of its context, do not end each other."""
    with ExitStack() as callers:
        body = {"model": "chat", "prompt": "a" * 900, "max_tokens": 20, "temperature": 0}
        answers: list[int] = []

        def ask() -> None:
            answer = serving.client.post(f"{serving.url}/v1/completions", json=body)
            answers.append(answer.status_code)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
            callers.callback(thread.join)
    assert answers == [200] * 4


def test_more_calls_than_a_connection_may_carry(serving: Serving) -> None:
    """§8.12: the engine closes a connection after 100 requests; nobody meets that."""
    asked = {"model": "emb", "input": "a"}
    answers = [
        serving.client.post(f"{serving.url}/v1/embeddings", json=asked).status_code
        for _ in range(250)
    ]
    assert answers == [200] * 250


def test_media_that_an_engine_without_projector_is_sent(serving: Serving) -> None:
    """§3, §7: it neither ends the engine nor makes it fetch anything."""
    fetched: list[str] = []

    class Keeper(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fetched.append(self.path)
            self.send_error(404)

        def log_message(self, format: str, *args: Any) -> None:
            return

    web = HTTPServer(("127.0.0.1", 0), Keeper)
    thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        far = {"type": "image_url", "image_url": {"url": f"http://127.0.0.1:{web.server_port}/"}}
        near = {
            "type": "image_url",
            "image_url": {"url": "data:image/png;base64," + text_of(png())},
        }
        clip = {"type": "input_audio", "input_audio": {"format": "wav", "data": text_of(wav())}}
        word = {"type": "text", "text": "a"}
        for content, outcome in (
            ([far], "not_admitted"),
            ([near], "unknown"),
            ([clip, word], "unknown"),
        ):
            chat = {"model": "chat", "messages": [{"role": "user", "content": content}]}
            embedding = {"model": "emb", "input": [{"content": content}]}
            for path, asked in (("/v1/chat/completions", chat), ("/v1/embeddings", embedding)):
                answer = serving.client.post(serving.url + path, json=asked)
                assert answer.status_code >= 400
                assert answer.headers["x-pumas-outcome"] == outcome
        asked = {"model": "emb", "input": [{"content": [clip]}]}
        answer = serving.client.post(serving.url + "/v1/embeddings", json=asked)
        assert answer.headers["x-pumas-outcome"] == "not_admitted"
    finally:
        web.shutdown()
        thread.join()
        web.server_close()
    assert fetched == []
    assert serving.operate(model="chat").status_code == 200
    assert embed(serving, "emb", ["a"]).status_code == 200
