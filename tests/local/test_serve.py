"""`pumas serve` from outside: the command, the real engine, tiny models."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from support.serve import PUMAS, Serving, manifest, serve
from support.worker import until

MODES = {
    "tiny-chat": (["text"], {"chat_generation", "text_generation"}, 2048),
    "tiny-embed": (["vector"], {"text_embedding"}, 512),
    "tiny-rerank": (["json"], {"rerank"}, 512),
    "tiny-decision": (["json"], {"decision"}, 1024),
}


def source(tiny_models: Path, name: str) -> dict[str, str]:
    return {"path": str(tiny_models / f"{name}.gguf")}


def available(row: dict[str, Any]) -> set[str]:
    return {
        c["capability"] for c in row["capabilities"] if c["availability"]["state"] == "available"
    }


def test_the_file_alone_decides_what_a_model_offers(tmp_path: Path, tiny_models: Path) -> None:
    """No task, unknown aliases: mode, modalities, bounds and reasons follow the file."""
    documents = [
        manifest(f"m{number}", alias=f"any/Name-{number}", source=source(tiny_models, name))
        for number, name in enumerate(MODES)
    ]
    with serve(tmp_path, *documents) as serving:
        for number, (outputs, capabilities, context) in enumerate(MODES.values()):
            row = serving.until_row(f"any/Name-{number}", load_state="loaded")
            row = until(
                lambda alias=row["model"], gives=outputs: (
                    found
                    if (found := serving.rows()[alias])["modalities"]["output"] == gives
                    and available(found)  # what the status knows, the router has to see itself
                    else None
                ),
                f"{row['model']} gives {outputs}",
            )
            assert row["modalities"]["input"] == ["text"]
            assert available(row) == capabilities
            assert row["context_tokens"] == context
            bounds = {b["option"]: b["maximum"] for b in row["capabilities"][0]["option_bounds"]}
            assert bounds["max_tokens"] == context
        assert serving.end() == 0
        assert serving.survivors() == []


def test_finite_and_streamed_answers(tmp_path: Path, tiny_models: Path) -> None:
    with serve(tmp_path, manifest("tiny", source=source(tiny_models, "tiny-chat"))) as serving:
        serving.until_available("tiny", "text_generation")
        finite = serving.operate(model="tiny")
        assert finite.status_code == 200
        result = finite.json()["result"]
        assert result["kind"] == "text"
        streamed = serving.operate(model="tiny", stream=True)
        records = [
            json.loads(line.removeprefix("data: "))
            for line in streamed.text.split("\n")
            if line.startswith("data: ")
        ]
        assert [records[0]["kind"], records[-1]["kind"]] == ["started", "completed"]
        text = "".join(r["text"] for r in records if r["kind"] == "delta")
        assert text == result["text"]
        assert records[-1]["finish_reason"] == result["finish_reason"]
        chat = serving.operate(
            model="tiny",
            capability="chat_generation",
            input={"kind": "messages", "messages": [{"role": "user", "content": "hi"}]},
        )
        assert chat.status_code == 200
        openai = serving.client.post(
            f"{serving.url}/v1/chat/completions",
            json={
                "model": "tiny",
                "messages": [{"role": "user", "content": "hi"}],
                "max_tokens": 8,
                "temperature": 0,
            },
        )
        assert openai.json()["choices"][0]["message"]["content"] == chat.json()["result"]["text"]
        over = serving.operate(
            model="tiny", options={"kind": "text_generation", "max_tokens": 2049}
        )
        assert over.status_code == 400
        assert "2049" in over.json()["error"]["message"]
        later = serving.operate(
            model="tiny",
            capability="rerank",
            output="relevance_scores",
            options=None,
            input={"kind": "rerank", "query": "a", "documents": ["b"]},
        )
        assert later.status_code == 503
        assert "model_task_mismatch" in later.json()["error"]["message"]
        assert serving.end() == 0
        lines = serving.operations()
    assert [line["code"] for line in lines] == [
        "ok",
        "ok",
        "ok",
        "ok",
        "invalid_request",
        "capability_unavailable",
    ]
    assert all(line["admitted"] for line in lines[:4])
    assert not any(line["admitted"] for line in lines[4:])


def test_engine_killed_in_the_middle_of_a_stream(tmp_path: Path, tiny_models: Path) -> None:
    """`failed`, unknown, never replayed; the next request works after the restart."""
    with serve(tmp_path, manifest("tiny", source=source(tiny_models, "tiny-chat"))) as serving:
        serving.until_available("tiny", "text_generation")
        engine = serving.engine("tiny")
        body = {
            "contract_version": 1,
            "request_id": "k:1",
            "model": "tiny",
            "capability": "text_generation",
            "input": {"kind": "text", "text": "hello"},
            "output": "text",
            "options": {"kind": "text_generation", "max_tokens": 2000, "temperature": 0},
            "stream": True,
        }
        got = ""
        with serving.client.stream(
            "POST", f"{serving.url}/v1/model-operations", json=body
        ) as answer:
            for piece in answer.iter_text():
                got += piece
                if "event: delta" in got and engine.is_running():
                    engine.kill()
        last = json.loads(got.strip().rsplit("data: ", 1)[1])
        assert last["kind"] == "failed"
        assert last["error"]["outcome"] == "unknown"
        assert last["error"]["code"] == "transport_lost"
        assert "completed" not in got
        again = until(
            lambda: found if (found := serving.operate(model="tiny")).status_code == 200 else None,
            "an answer after the restart",
        )
        assert again.json()["result"]["kind"] == "text"
        assert serving.engine("tiny").pid != engine.pid
        refused = [
            line for line in serving.operations() if line["code"] not in ("ok", "transport_lost")
        ]
        assert all(line["outcome"] == "not_admitted" for line in refused)


def bad_files(folder: Path, tiny_models: Path) -> dict[str, tuple[dict[str, Any], str]]:
    """By name: a spec whose file is bad in one way, and the reason that is told of it."""
    whole = (tiny_models / "tiny-chat.gguf").read_bytes()
    files = {
        "truncated": (whole[: len(whole) // 2], "Truncated"),
        "text": (b"no model\n" * 100, "NotAModel"),
        "empty": (b"", "NotAModel"),
        "digest": (whole, "DigestMismatch"),
    }
    for name, (content, _) in files.items():
        (folder / f"{name}.gguf").write_bytes(content)
    bad: dict[str, tuple[dict[str, Any], str]] = {
        name: ({"source": {"path": f"{name}.gguf"}}, reason)
        for name, (_, reason) in {"missing": (None, "SourceUnreachable"), **files}.items()
    }
    bad["digest"][0]["sha256"] = "0" * 64
    bad["headless"] = (
        {"source": source(tiny_models, "tiny-rerank-headless")},
        "MissingRankingHead",
    )
    return bad


def test_bad_files_are_refused_before_an_engine_starts(tmp_path: Path, tiny_models: Path) -> None:
    """Each for its own reason; none keeps the good one from serving."""
    bad = bad_files(tmp_path, tiny_models)
    documents = [manifest(f"bad-{name}", **spec) for name, (spec, _) in bad.items()]
    good = manifest("good", source=source(tiny_models, "tiny-chat"))
    with serve(tmp_path, *documents, good) as serving:
        for name, (_, reason) in bad.items():
            alias = f"bad-{name}"
            row = serving.until_row(alias, load_state="failed")
            assert row["error"]["reason"] == reason, name
            assert str(tmp_path) not in json.dumps(row), name
            answer = serving.operate(model=alias)
            assert answer.status_code == 503, name
            assert reason in answer.json()["error"]["message"], name
            openai = serving.client.post(f"{serving.url}/v1/completions", json={"model": alias})
            code = openai.json()["error"]["code"]
            assert (openai.status_code, code) == (500, "model_load_failed"), name
            assert any(alias in line and reason in line for line in serving.out), name
        serving.until_available("good", "text_generation")
        assert serving.end() == 0
        runs = tmp_path / "data" / "run"
        assert list(runs.glob("good*/server.log"))
        assert not list(runs.glob("bad*/server.log"))


def test_a_stream_of_an_external_engine(tmp_path: Path, tiny_models: Path) -> None:
    """A second `pumas serve` in front of the first, as `runtime: external`."""
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    inner.mkdir()
    outer.mkdir()
    with serve(inner, manifest("tiny", source=source(tiny_models, "tiny-chat"))) as first:
        first.until_available("tiny", "text_generation")
        external = manifest(
            "other",
            runtime="external",
            endpoint={"url": f"{first.url}/v1", "model": "tiny"},
            task="text-generation",
        )
        with serve(outer, external) as second:
            second.until_available("other", "text_generation")
            here, there = first.operate(model="tiny"), second.operate(model="other")
            assert here.json()["result"] == there.json()["result"]
            assert second.end() == 0


def test_port_taken(tmp_path: Path, tiny_models: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        file = tmp_path / "m.yaml"
        file.write_text(json.dumps(manifest("tiny", source=source(tiny_models, "tiny-chat"))))
        serving = Serving([PUMAS, "serve", file, "--port", str(port), "--data", tmp_path])
        assert serving.wait() == 1
        serving.client.close()
    assert serving.err == [
        f"pumas: Port {port} of 127.0.0.1 cannot be used (Address already in use); "
        "stop what uses it, or choose another with --port.\n"
    ]


def test_a_host_that_is_no_address_of_this_machine(tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(json.dumps(manifest("m", source={"path": "absent.gguf"})))
    command = [PUMAS, "serve", file, "--host", "192.0.2.1", "--port", "0", "--data", tmp_path]
    serving = Serving([*command])
    assert serving.wait() == 1
    serving.client.close()
    assert serving.err == [
        "pumas: The address 192.0.2.1 cannot be used (Cannot assign requested address); "
        "choose another with --host.\n"
    ]


PROFILE = {
    "apiVersion": "serving.pumas.dev/v1alpha1",
    "kind": "ServingProfile",
    "metadata": {"name": "long"},
    "spec": {},
}
NO_MODEL = "No model is served: the manifests hold no ServedModel.\n"


def test_manifests_without_a_model_say_so_at_once_and_when_read_again(
    tmp_path: Path, tiny_models: Path
) -> None:
    with serve(tmp_path, PROFILE) as serving:
        until(lambda: NO_MODEL in serving.out, "a word", 30)
        file = tmp_path / "models.yaml"
        file.write_text(json.dumps(manifest("m", source={"path": "absent.gguf"})))
        serving.process.send_signal(signal.SIGHUP)
        serving.until_row("m", load_state="failed")
        file.write_text(json.dumps(PROFILE))
        serving.process.send_signal(signal.SIGHUP)
        until(lambda: serving.out.count(NO_MODEL) == 2, "a second word", 30)
        assert sum(line.startswith("MODEL") for line in serving.out) <= 1
        assert serving.end() == 0


def test_a_prompt_without_any_model(tmp_path: Path) -> None:
    with serve(tmp_path, PROFILE, arguments=("--prompt", "hi", "--once")) as serving:
        assert serving.wait() == 1
        assert serving.err == [
            "pumas: --prompt and --compare need a model, and no manifest holds one.\n"
        ]


def test_a_model_whose_identity_is_taken_is_in_the_table_with_its_reason(tmp_path: Path) -> None:
    first = manifest("first", source={"path": "absent.gguf"})
    second = manifest("second", source={"path": "absent.gguf"}, alias="first")
    with serve(tmp_path, first, second) as serving:
        serving.until_row("first", load_state="failed")
        until(lambda: any(line.startswith("MODEL") for line in serving.out), "the table", 30)
        told = "".join(serving.out)
        message = "DuplicateIdentity: Another model is served as first with profile default."
        assert f"s  first (second)  failed  {message}\n" in told
        row = next(line for line in serving.out if line.startswith("first (second)"))
        assert row.split("  ")[-1].strip() == "none (DuplicateIdentity)"
        assert serving.end() == 0


def test_an_engine_that_is_not_there_is_named_at_the_terminal_alone(
    tmp_path: Path, tiny_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_SERVER_BIN", str(tmp_path / "nope"))
    with serve(tmp_path, manifest("m", source=source(tiny_models, "tiny-chat"))) as serving:
        row = serving.until_row("m", load_state="failed")
        assert row["error"]["message"] == (
            "The pod cannot serve: LLAMA_SERVER_BIN names no program that can be run here."
        )
        until(lambda: f"(it is '{tmp_path}/nope')" in "".join(serving.err), "the value", 30)
        assert str(tmp_path) not in "".join(serving.out)
        assert serving.end() == 0


def test_a_data_folder_that_cannot_be_used(tmp_path: Path, tiny_models: Path) -> None:
    file, data = tmp_path / "m.yaml", tmp_path / "data"
    file.write_text(json.dumps(manifest("tiny", source=source(tiny_models, "tiny-chat"))))
    data.touch()
    serving = Serving([PUMAS, "serve", file, "--port", "0", "--data", data])
    assert serving.wait() == 1
    serving.client.close()
    assert serving.err == [
        f"pumas: The data folder {data} cannot be used (Not a directory); "
        "choose another with --data.\n"
    ]


def test_a_data_folder_that_vanishes(tmp_path: Path, tiny_models: Path) -> None:
    tiny = manifest("tiny", source=source(tiny_models, "tiny-chat"))
    with serve(tmp_path, tiny) as serving:
        serving.until_available("tiny", "text_generation")
        shutil.rmtree(tmp_path / "data")
        serving.engine("tiny").kill()
        serving.until_row("tiny", load_state="failed")
        serving.until_available("tiny", "text_generation")
        shutil.rmtree(tmp_path / "data")
        assert serving.end() == 0
        assert serving.survivors() == []
        assert "Traceback" not in "".join(serving.err)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"source": {"path": "absent.gguf"}}, "SourceUnreachable"),
        (
            {
                "runtime": "external",
                "endpoint": {"url": "http://127.0.0.1:9"},
                "task": "text-generation",
            },
            "NoEndpoint",
        ),
    ],
)
def test_a_prompt_that_nobody_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any], words: str
) -> None:
    with serve(tmp_path, manifest("m", **spec), arguments=("--prompt", "hi", "--once")) as serving:
        assert serving.wait(40) == 1
        assert words in serving.err[-1]
        assert "Traceback" not in "".join(serving.err)


def test_engine_that_does_not_start(tmp_path: Path, tiny_models: Path) -> None:
    """A header that passes and tensors that no engine can use."""
    spoilt = bytearray((tiny_models / "tiny-chat.gguf").read_bytes())
    spoilt = bytearray(spoilt.replace(b"blk.1.attn_norm.weight", b"blk.1.attn_gone.weight"))
    (tmp_path / "spoilt.gguf").write_bytes(spoilt)
    document = manifest("spoilt", source={"path": "spoilt.gguf"})
    with serve(tmp_path, document, arguments=("--prompt", "hi", "--once")) as serving:
        serving.engine("spoilt")
        serving.remember()
        assert serving.wait(60) == 1
        assert "EngineFailed" in serving.err[-1]
        assert serving.survivors() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopping_leaves_nothing(tmp_path: Path, tiny_models: Path, number: signal.Signals) -> None:
    with serve(tmp_path, manifest("tiny", source=source(tiny_models, "tiny-chat"))) as serving:
        serving.engine("tiny")
        assert serving.end(number) == 0
        assert serving.descendants
        assert serving.survivors() == []


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux ties a child's life to its parent's"
)
def test_killed_leaves_nothing(tmp_path: Path, tiny_models: Path) -> None:
    with serve(tmp_path, manifest("tiny", source=source(tiny_models, "tiny-chat"))) as serving:
        serving.until_available("tiny", "text_generation")
        serving.end(signal.SIGKILL)
        until(lambda: serving.survivors() == [], "the end of all processes")


def test_stop_during_a_stream_ends_it_truthfully(tmp_path: Path, tiny_models: Path) -> None:
    """The second Ctrl-C does not wait for a stream that goes on."""
    with serve(tmp_path, manifest("tiny", source=source(tiny_models, "tiny-chat"))) as serving:
        serving.until_available("tiny", "text_generation")
        body = {"model": "tiny", "prompt": "x", "max_tokens": 100_000, "stream": True}
        with serving.client.stream("POST", f"{serving.url}/v1/completions", json=body) as answer:
            lines = answer.iter_lines()
            assert next(lines).startswith("data: ")
            serving.remember()
            serving.process.send_signal(signal.SIGINT)
            until(lambda: any("stopping" in line for line in serving.out) or None, "stopping", 30)
        assert serving.wait() == 0
        assert serving.survivors() == []


def test_build_info() -> None:
    for name in ("pumas", "pumas-rpc"):
        serving = Serving([PUMAS.with_name(name), "--build-info"])
        assert serving.wait() == 0
        serving.client.close()
        info = json.loads("".join(serving.out))
        assert info["supported_contract_versions"] == [1]
        assert re.fullmatch(r"\d+\.\d+\.\d+", info["version"])


def test_version() -> None:
    told = subprocess.run([PUMAS, "--version"], capture_output=True, text=True, timeout=30)
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == f"pumas {version('pumas-serving')}\n"


def test_once_needs_a_prompt(tmp_path: Path) -> None:
    with serve(tmp_path, manifest("m", source={"path": "x"}), arguments=("--once",)) as serving:
        assert serving.wait() == 2
        assert "--prompt" in "".join(serving.err)


def test_an_external_server_that_is_down_is_named_at_the_terminal_alone(tmp_path: Path) -> None:
    endpoint = {"url": "http://127.0.0.1:9/v1"}
    document = manifest("ext", runtime="external", endpoint=endpoint, task="text-generation")
    with serve(tmp_path, document) as serving:
        cause = "the server does not answer: the connection is refused"

        def told() -> str | None:
            error = serving.rows()["ext"].get("error")
            return error["message"] if error and cause in error["message"] else None

        message = until(told, "the cause", 30)
        assert "127.0.0.1" not in message
        line = f"ext  loading  NoEndpoint: {message} (http://127.0.0.1:9)\n"
        until(lambda: any(each.endswith(line) for each in serving.out), "the address", 30)
        assert serving.end() == 0
