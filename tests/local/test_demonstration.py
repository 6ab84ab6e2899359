"""What `pumas serve --prompt --compare --once` shows, and why it shows nothing."""

from __future__ import annotations

import io
import json
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from rich.console import Console
from typer.testing import CliRunner

from pumas_local import demonstration
from pumas_local.cannot_serve import CannotServe
from pumas_local.cli import app
from pumas_local.demonstration import Demonstration
from pumas_local.first_answer import NoAnswer, ask_similarities
from pumas_local.terminal import Terminal
from support.routers import RunningRouter, external, running_router
from support.upstream import DONE, Conversation, ScriptedUpstream, text

VECTORS = {"one": [1.0, 0.0], "same": [2.0, 0.0], "other": [0.0, 3.0], "half": [1.0, math.sqrt(3)]}
VECTORS |= {"against": [-1.0, 0.0], "nothing": [0.0, 0.0]}


async def answer(talk: Conversation) -> None:
    asked = talk.request.json
    if talk.request.path == "/v1/completions":
        await talk.stream(text(" a b"), text("\nc", "stop"), DONE)
        return
    if "refuse" in asked["input"]:
        await talk.whole(400, b'{"error":{"message":"too many words"}}')
        return
    data = [{"index": n, "embedding": VECTORS[name]} for n, name in enumerate(asked["input"])]
    await talk.whole(200, json.dumps({"data": data}).encode())


@pytest_asyncio.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(answer).serving() as scripted:
        yield scripted


async def shown(
    router: RunningRouter, prompt: str | None, compare: list[str], once: bool = True
) -> str:
    out = io.StringIO()
    terminal = Terminal(Console(file=out, highlight=False, soft_wrap=True))
    url = f"http://127.0.0.1:{router.port}"
    await Demonstration(router.router, terminal, url).show(prompt, compare, once)
    return out.getvalue()


def embedder(upstream: ScriptedUpstream) -> Any:
    return external(upstream.url, "emb", "feature-extraction")


async def test_how_alike_texts_are(upstream: ScriptedUpstream) -> None:
    async with running_router(external(upstream.url), embedder(upstream)) as router:
        told = await shown(router, None, ["one", "same", "other", "half", "against"])
    assert told == (
        "emb compares with: one\n   1.00  same\n   0.00  other\n   0.50  half\n  -1.00  against\n\n"
    )


async def test_a_completion_is_the_last_line_of_all(upstream: ScriptedUpstream) -> None:
    async with running_router(external(upstream.url), embedder(upstream)) as router:
        once = await shown(router, "go on", ["one", "same"])
        longer = await shown(router, "go on", ["one", "same"], once=False)
    for told in (once, longer):
        assert told.startswith("llm goes on from: go on\n a b\nc\n\nemb compares with: one\n")
        assert "Go on with:\n" in told
    assert once.endswith("\ncompletion:  a b\\nc\n")
    assert longer.index("completion:") < longer.index("Go on with:")


async def test_no_model_that_embeds(upstream: ScriptedUpstream) -> None:
    async with running_router(external(upstream.url)) as router:
        with pytest.raises(
            CannotServe, match=r"^llm does not embed text\. --compare needs a model that does\.$"
        ):
            await shown(router, None, ["one", "same"])


async def test_no_model_that_generates(upstream: ScriptedUpstream) -> None:
    async with running_router(embedder(upstream)) as router:
        with pytest.raises(
            CannotServe, match=r"^emb does not generate text\. --prompt needs a model that does\.$"
        ):
            await shown(router, "go on", [])


async def test_a_model_that_failed_is_named_with_its_reason(
    upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demonstration, "PASSING_FAULT_SECONDS", 0.05)
    failed = external("http://127.0.0.1:9", "emb", "feature-extraction")
    async with running_router(failed, ready=False) as router:
        with pytest.raises(
            CannotServe, match=r"emb cannot serve: NoEndpoint: .*[^.]\. Mend the manifest"
        ):
            await shown(router, None, ["one", "same"])


async def test_a_refused_comparison_says_why(upstream: ScriptedUpstream) -> None:
    async with running_router(embedder(upstream)) as router:
        with pytest.raises(CannotServe, match=r"emb gave no answer: .*too many words"):
            await shown(router, None, ["one", "refuse"])
        with pytest.raises(NoAnswer, match="too many words"):
            url = f"http://127.0.0.1:{router.port}"
            await ask_similarities(url, "emb", "default", ["refuse"])


async def test_a_vector_without_a_direction_is_like_nothing(upstream: ScriptedUpstream) -> None:
    async with running_router(embedder(upstream)) as router:
        url = f"http://127.0.0.1:{router.port}"
        assert await ask_similarities(url, "emb", "default", ["one", "nothing"]) == [0.0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--compare", "one"], "give two texts or more"),
        (["--once"], "--once needs --prompt or --compare"),
        (["--once", "--compare", "one"], "give two texts or more"),
    ],
)
def test_what_cannot_be_shown_is_a_usage_error(arguments: list[str], words: str) -> None:
    done = CliRunner().invoke(app, ["serve", "m.yaml", *arguments], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert words in done.output
