"""Remote files: ranges, redirects, and what a server may do wrong in words without its address."""

from __future__ import annotations

import pytest

from pumas_server.worker import remote_file
from pumas_server.worker.remote_file import Part, Unreachable, open_part
from support.file_server import file_server
from support.worker import free_ports

CONTENT = bytes(range(256)) * 20


def problem(url: str, start: int = 0) -> Unreachable:
    with pytest.raises(Unreachable) as caught, open_part(url, start) as part:
        list(part.blocks())
    assert "127.0.0.1" not in str(caught.value) and "/" not in str(caught.value)
    return caught.value


def read(part: Part) -> bytes:
    return b"".join(part.blocks())


def test_a_whole_file() -> None:
    with file_server(CONTENT) as server, open_part(server.url) as part:
        assert (part.start, part.size, part.validator) == (0, len(CONTENT), '"v1"')
        assert read(part) == CONTENT
    assert server.asked == [("/deep/w.gguf", "")]


def test_a_part() -> None:
    with file_server(CONTENT) as server, open_part(server.url, 100, '"v1"') as part:
        assert (part.start, part.size) == (100, len(CONTENT))
        assert read(part) == CONTENT[100:]


def test_a_server_without_ranges_and_a_file_that_has_changed_begin_anew() -> None:
    with file_server(CONTENT, ranges=False) as server, open_part(server.url, 100) as part:
        assert (part.start, read(part)) == (0, CONTENT)
    with file_server(CONTENT) as server, open_part(server.url, 100, '"v0"') as part:
        assert (part.start, read(part)) == (0, CONTENT)


@pytest.mark.parametrize("etag", ["", 'W/"v1"'])
def test_a_weak_etag_vouches_for_nothing(etag: str) -> None:
    with file_server(CONTENT, etag=etag) as server, open_part(server.url) as part:
        assert part.validator == ""


def test_a_file_of_untold_length() -> None:
    with file_server(CONTENT, says_length=False) as server, open_part(server.url) as part:
        assert (part.size, read(part)) == (None, CONTENT)


def test_a_redirect_is_followed_to_http_alone() -> None:
    with file_server(CONTENT) as server:
        old = server.url.replace("/deep/w.gguf", "/old")
        server.location = server.url
        with open_part(old, 100, '"v1"') as part:
            assert read(part) == CONTENT[100:]
        for elsewhere in ("file:///etc/passwd", "ftp://127.0.0.1/x"):
            server.location = elsewhere
            assert not problem(old).passing


@pytest.mark.parametrize(
    ("status", "words", "passing"),
    [
        (401, "refuses it with 401: it may be private", False),
        (403, "refuses it with 403: it may be private", False),
        (404, "does not have it (404)", False),
        (410, "does not have it (410)", False),
        (400, "answers 400", False),
        (429, "answers 429", True),
        (500, "answers 500", True),
        (503, "answers 503", True),
    ],
)
def test_refusals(status: int, words: str, passing: bool) -> None:
    with file_server(CONTENT, statuses=[status]) as server:
        told = problem(server.url)
    assert words in str(told) and told.passing is passing


def test_another_part_than_was_asked_for() -> None:
    with file_server(CONTENT, wrong_range=True) as server:
        assert "another part" in str(problem(server.url, 100))


def test_nobody_there() -> None:
    told = problem(f"http://127.0.0.1:{free_ports(1)[0]}/w.gguf")
    assert str(told) == "the server cannot be reached (Connection refused)" and told.passing
    told = problem("http://no-such-host.invalid/w.gguf")
    assert str(told).startswith("the server cannot be reached (") and told.passing


def test_a_server_that_falls_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_file, "SILENCE_SECONDS", 0.05)
    import socket

    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        told = problem(f"http://127.0.0.1:{deaf.getsockname()[1]}/w.gguf")
    assert told.passing


def test_something_that_speaks_no_http() -> None:
    import socket
    import threading

    with socket.socket() as odd:
        odd.bind(("127.0.0.1", 0))
        odd.listen()

        def chatter() -> None:
            connection, _ = odd.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"220 mail.example ESMTP\r\n")

        thread = threading.Thread(target=chatter)
        thread.start()
        told = problem(f"http://127.0.0.1:{odd.getsockname()[1]}/w.gguf")
        thread.join()
    assert str(told) == "the connection broke (BadStatusLine)" and told.passing
