"""A second signal to `pumas serve`: nothing is waited for, and whoever is cut off is told so."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import httpx
import pytest

from support.background import in_background
from support.routers import chat_operation
from support.serve import manifest, serve
from support.upstream import Conversation, ScriptedUpstream, chat
from support.worker import until


async def say_one_word(talk: Conversation) -> None:
    await talk.head()
    await talk.chunk(chat("first"))
    await talk.caller_left()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_the_drain(tmp_path: Path, number: signal.Signals) -> None:
    with in_background(lambda: ScriptedUpstream(say_one_word).serving()) as upstream:
        document = manifest(
            "llm",
            runtime="external",
            endpoint={"url": upstream.url, "model": "served"},
            task="text-generation",
        )
        with serve(tmp_path, document) as serving:
            serving.until_available("llm", "chat_generation")
            url = f"{serving.url}/v1/model-operations"
            with httpx.stream("POST", url, json=chat_operation(stream=True), timeout=30) as answer:
                pieces = answer.iter_text()
                told = ""
                while "first" not in told:
                    told += next(pieces)
                serving.process.send_signal(number)
                until(lambda: "stopping\n" in serving.out, "it stops")
                assert serving.process.poll() is None, "a drain waits for calls that are admitted"
                serving.process.send_signal(number)
                told += "".join(pieces)
            assert serving.wait(10) == 130
        last = json.loads(told.split("data: ")[-1])
        assert (last["kind"], last["error"]["code"]) == ("failed", "transport_lost")
        (line,) = serving.operations()
        assert (line["code"], line["outcome"]) == ("transport_lost", "unknown")
        assert "Traceback" not in "".join(serving.err)
