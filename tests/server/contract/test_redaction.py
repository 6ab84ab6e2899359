"""What is taken out of a message, and what has to stay in it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumas_server.contract.redaction import (
    MARK,
    MAX_FOREIGN_CHARACTERS,
    redact,
    redact_foreign,
)

SECRET = "s3cr3tS3cr3t"

CREDENTIALS = [
    f"Authorization: Bearer {SECRET}",
    f"authorization: basic {SECRET}==",
    f"Authorization={SECRET}",
    f"'Authorization': 'Bearer {SECRET}'",
    f'"authorization": "Token {SECRET}"',
    f"Bearer {SECRET}",
    f"api_key={SECRET}",
    f"API-Key: {SECRET}",
    f"apikey: {SECRET}",
    f'"api_key": "{SECRET}"',
    f'"api_key": "a, b {SECRET}"',
    f"access_key={SECRET}",
    f"aws_secret_access_key = {SECRET}",
    f"client_secret={SECRET}",
    f"secret_key: {SECRET}",
    f"private-key={SECRET}",
    f"token={SECRET}",
    f"access_token={SECRET}",
    f"accessToken={SECRET}",
    f"refreshToken: '{SECRET}'",
    f"password={SECRET}",
    f"passwd: {SECRET}",
    f"passphrase: {SECRET}",
    f"Cookie: {SECRET}",
    f"https://host/?token={SECRET}&x=1",
    f"https://user:{SECRET}@host/x",
    f"https://user:p@{SECRET}@host/x",
    f"https://{SECRET}@host",
    f"sk-{SECRET}",
    f"sk-proj-{SECRET}",
    f"hf_{SECRET}",
    f"ghp_{SECRET}",
    f"glpat-{SECRET}",
    f"xoxb-{SECRET}",
    f"github_pat_11AAAAAAAAAAAAAAAAAA{SECRET}",
    f"AKIA{SECRET.upper()}",
    f"AIzaAAAAAAAAAAAAAA{SECRET}",
    f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ4In0.{SECRET}",
    f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----",
    f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}",
]


@pytest.mark.parametrize("text", CREDENTIALS)
@pytest.mark.parametrize("function", [redact, redact_foreign])
def test_a_credential_is_taken_out_and_the_rest_stays(text: str, function: object) -> None:
    assert callable(function)
    told = function(f"it said {text} and stopped")
    assert SECRET.lower() not in told.lower()
    assert MARK in told
    assert told.startswith("it said ")


PLACES = [
    "https://example.com",
    "http://engine:8080/v1/models?x=1",
    "http://[fe80::1]:8080/v1",
    "s3://bucket/key",
    "file:///models/x.gguf",
    "unix:///run/engine.sock",
    "10.0.0.1",
    "10.0.0.1:8080",
    "127.0.0.1:51234",
    "::1",
    "[::1]:8080",
    "2001:db8::8a2e:370:7334",
    "2001:0db8:0000:0000:0000:8a2e:0370:7334",
    "fe80::1%eth0",
    "::ffff:10.0.0.1",
    "02:42:ac:11:00:02",
    "localhost",
    "localhost:8080",
    "engine.models.svc:8080",
    "engine.models.svc.cluster.local",
    "api.example.com:443",
    "/models",
    "/models/tiny.gguf",
    "//models/tiny.gguf",
    "/home/jo/.cache/x",
    "~/models/x",
    "~jo/models",
    "./models",
    "../models/x",
    "models/tiny.gguf",
    "src/llama-model.cpp",
    "C:\\models\\x.gguf",
    "C:/models/x.gguf",
    "\\\\server\\share\\x",
    "/données/modèle",
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "sentence",
    ["cannot reach {} now", "cannot reach {}", "{}: refused", "at '{}'", "({})", "a={}", "to {}."],
)
def test_a_place_is_taken_out_of_somebody_elses_sentence(place: str, sentence: str) -> None:
    told = redact_foreign(sentence.format(place))
    assert MARK in told
    assert told.replace(MARK, "").strip(" .:'()[]") in {
        "cannot reach  now",
        "cannot reach",
        "refused",
        "at",
        "",
        "a=",
        "to",
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("failed to open '/models/my model.gguf'", "failed to open '[redacted]'"),
        ('failed to open "/my models/x" (2)', 'failed to open "[redacted]" (2)'),
        ("hostname: engine-7, port: 8080", "hostname: [redacted], port: 8080"),
        ("cannot connect to engine-7:8080 now", "cannot connect to [redacted] now"),
        ("10.0.0.1, 10.0.0.2 and ::1", "[redacted], [redacted] and [redacted]"),
        ("http://user:pw@host/x is down", "[redacted] is down"),
    ],
)
def test_places_among_other_words(text: str, told: str) -> None:
    assert redact_foreign(text) == told


@pytest.mark.parametrize(
    "text",
    [
        "text/plain",
        "application/json",
        "image/png",
        "and/or",
        "tokens/s",
        "1/2",
        "a / b",
        "</think>",
        "<|im_end|>",
        "org/model",
        "org/model:tag",
        "org/model-GGUF:Q4_K_M",
        "qwen2.5:7b",
        "llama3.1:70b",
        "12:30:45",
        "12:30",
        "2024-01-01T12:30:45Z",
        "1:2:3",
        "x[0:5]",
        "1.5",
        "1.2.3",
        "v1.2.3",
        "-0.5",
        "4096",
        "3.14159",
        "std::vector<float>",
        "cls.output.weight",
        "n_ctx: 4096",
        "max_tokens: 4096",
        "n_tokens = 5000",
        "e.g. this",
        "what? yes: no.",
        "data:image/png;base64,AAAA",
        "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
        "Loading model",
        "input is too large to process. increase the physical batch size (current: 512)",
        "sk-learn",
        "a secret is kept",
        "the token budget",
    ],
)
def test_what_has_to_stay(text: str) -> None:
    assert redact_foreign(text) == text
    assert redact_foreign(f"it said {text} again") == f"it said {text} again"
    assert redact(text) == text


def test_our_own_sentences_keep_their_places() -> None:
    assert (
        redact("`/v1/models` and org/model at 10.0.0.1") == "`/v1/models` and org/model at 10.0.0.1"
    )


def test_somebody_elses_sentence_becomes_one_printable_line() -> None:
    assert redact_foreign(" a\n\tb\x1b[31m c\x00\u2028d\ud800 ") == "a b [31m c d"


def test_somebody_elses_sentence_is_cut() -> None:
    whole = "word " * 100
    assert redact_foreign(whole) == whole.strip()
    cut = redact_foreign("x" + whole * 3)
    assert len(cut) == MAX_FOREIGN_CHARACTERS
    assert cut.endswith("…")


def test_a_secret_is_not_cut_into_a_harmless_looking_half() -> None:
    text = "w " * 245 + f"api_key={SECRET * 10}"
    assert SECRET[:4] not in redact_foreign(text)


@pytest.mark.parametrize(
    "piece",
    ["a-", "a.", "a:", "/a", "1.", "ab:", "[::", "'/", "token", "token=", '"', "bearer ", "eyJ",
     "://", "a://", "x:\\", "\\\\a", "-----BEGIN PRIVATE KEY-----", "a/", "~", "host: ", "sk-"],
)  # fmt: skip
def test_a_hostile_sentence_is_scanned_quickly(piece: str) -> None:
    text = (piece * 100_000)[:100_000]
    started = time.process_time()
    redact_foreign(text)
    assert time.process_time() - started < 1


@given(text=st.text())
def test_any_text_becomes_one_that_can_be_sent(text: str) -> None:
    redact(text).encode()
    told = redact_foreign(text)
    told.encode()
    assert told.isprintable()
    assert len(told) <= MAX_FOREIGN_CHARACTERS


@given(
    before=st.text(alphabet="ab ,.:/'\"=-1", max_size=12), after=st.text("ab ,.:/'\"", max_size=8)
)
def test_a_bearer_token_is_taken_out_wherever_it_stands(before: str, after: str) -> None:
    assert SECRET not in redact_foreign(f"{before} Bearer {SECRET} {after}")
