"""What wrk prints is read whole, or it is an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from load import wrk

PRINTED = """\
Running 2s test @ http://127.0.0.1:9101/v1/chat/completions
  1 threads and 16 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   781.78us    1.26ms   9.23ms   87.44%
    Req/Sec    38.53k    13.69k   57.12k    60.00%
  Latency Distribution
     50%  253.00us
     75%  479.00us
     90%    2.56ms
     99%    5.95ms
  38416 requests in 1.01s, 18.24MB read
Requests/sec:  38180.92
Transfer/sec:     18.13MB
"""


def test_rate_and_percentiles() -> None:
    assert wrk.read(PRINTED) == pytest.approx({"rate": 38180.92, "p50_ms": 0.253, "p99_ms": 5.95})


@pytest.mark.parametrize(
    ("printed", "milliseconds"),
    [("253.00us", 0.253), ("1.51s ", 1510), ("2.56ms", 2.56), ("1.02m ", 61_200)],
)
def test_every_unit_of_time_is_told_in_milliseconds(printed: str, milliseconds: float) -> None:
    told = wrk.read(PRINTED.replace("5.95ms", printed))
    assert told["p99_ms"] == pytest.approx(milliseconds)


@pytest.mark.parametrize(
    "trouble",
    [
        "  Non-2xx or 3xx responses: 38416",
        "  Socket errors: connect 0, read 3, write 0, timeout 0",
    ],
)
def test_calls_that_went_wrong_are_an_error(trouble: str) -> None:
    text = PRINTED.replace("Requests/sec", f"{trouble}\nRequests/sec")
    with pytest.raises(ValueError, match=trouble.strip()):
        wrk.read(text)


@pytest.mark.parametrize("line", ["Requests/sec:  38180.92\n", "     99%    5.95ms\n"])
def test_a_figure_that_is_not_there_is_an_error(line: str) -> None:
    with pytest.raises(ValueError, match="not what wrk"):
        wrk.read(PRINTED.replace(line, ""))


def test_quotes_backslashes_and_line_ends_of_a_body_survive_lua() -> None:
    script = wrk.build_script(b'{"a": "it\'s\\n"}\n')
    assert script.splitlines()[1] == 'wrk.body = \'{"a": "it\\\'s\\\\n"}\\n\''


def test_one_thread_and_the_asked_connections() -> None:
    command = wrk.build_command("http://a/b", Path("x.lua"), 32, 2)
    assert command[:4] == ["wrk", "-t1", "-c32", "-d2s"]
    assert "--latency" in command and command[-1] == "http://a/b"
