"""The process that reads long bodies: it is there when it is asked, whatever became of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest

from pumas_server.router import reader_process
from pumas_server.router.body_reading import Failed, Forwarded, Found, Projected, Refused
from pumas_server.router.reader_process import ReaderProcess
from support.worker import is_running, until

CHAT = Forwarded("/v1/chat/completions", "application/json")
LONG = b'{"model":"m","x":"' + b"a" * 2_000_000 + b'"}'


@pytest.fixture
def reader() -> Iterator[ReaderProcess]:
    reader = ReaderProcess()
    yield reader
    reader.kill()
    reader.end()
    assert children() == []


def children() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children()
        if "pumas_server.router.body_reader" in child.cmdline()
    ]


def test_one_process_reads_all(reader: ReaderProcess) -> None:
    for _ in range(3):
        found = reader.ask(CHAT, LONG)
        assert isinstance(found, Found)
        assert b"".join(found.value.rewrite(LONG, "other")) == LONG.replace(b'"m"', b'"other"')
        (child,) = children()
    assert isinstance(reader.ask(CHAT, b"[" * 100_000), Refused)
    assert children() == [child]
    # It lets everything else go first, and is not ended by a Ctrl-C at the router's terminal.
    assert child.nice() >= 10
    assert child.pid == os.getpgid(child.pid)


def test_what_is_printed_is_no_answer_and_a_fault_is_not_the_end(reader: ReaderProcess) -> None:
    prints: Any = print
    assert reader.ask(Projected("r1", prints), b"between the answers") == Failed("AttributeError")
    (child,) = children()
    assert isinstance(reader.ask(CHAT, LONG), Found)
    assert children() == [child]


def test_one_that_ended_is_started_again(
    reader: ReaderProcess, caplog: pytest.LogCaptureFixture
) -> None:
    assert isinstance(reader.ask(CHAT, LONG), Found)
    (child,) = children()
    child.kill()
    until(lambda: child.status() == psutil.STATUS_ZOMBIE, "its end")
    assert reader.ask(CHAT, LONG) is None
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert isinstance(reader.ask(CHAT, LONG), Found)
    assert children() != [child]


def test_one_that_is_killed_while_it_reads_ends_the_waiting(reader: ReaderProcess) -> None:
    assert isinstance(reader.ask(CHAT, LONG), Found)
    (child,) = children()
    child.suspend()
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(reader.ask, CHAT, LONG)
        reader.kill()
        assert waiting.result(10) is None
        # For good: nothing is started any more.
        assert thread.submit(reader.ask, CHAT, LONG).result(10) is None
    assert not is_running(child.pid)


def test_an_answer_that_cannot_be_taken_is_nobody_elses(
    reader: ReaderProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_memory(data: bytes) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(reader_process.pickle, "loads", no_memory)
        with pytest.raises(MemoryError):
            reader.ask(CHAT, LONG)
    assert children() == []
    assert isinstance(reader.ask(CHAT, LONG), Found)


def test_it_ends_with_the_router(reader: ReaderProcess) -> None:
    assert isinstance(reader.ask(CHAT, LONG), Found)
    (child,) = children()
    # What the system does when a process ends, however it ends.
    reader._process.stdin.close()  # type: ignore[union-attr]
    assert child.wait(10) in (0, None)
