"""Who may act, by the header of the request alone, and over HTTP."""

from __future__ import annotations

import pytest

from pumas_server.router.lmsp.page_fence import PageFence
from pumas_server.router.lmsp.problems import ProblemCode, ProblemError
from support.catalogue import BASE, A, RunningCatalogue, assert_problem

HERE = "127.0.0.1:8080"


def refused(*, loopback_only: bool, **headers: str) -> str | None:
    """Which field is at fault, if one is."""
    lines = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    try:
        PageFence(loopback_only).check(lines)
    except ProblemError as error:
        assert error.code is ProblemCode.INVALID_REQUEST
        return error.param
    return None


@pytest.mark.parametrize(
    "host",
    [
        HERE,
        "127.0.0.1",
        "127.9.9.9:1",
        "localhost",
        "LocalHost:8080",
        "localhost.:8080",
        "pumas.localhost:8080",
        "[::1]:8080",
    ],
)
def test_names_of_this_machine(host: str) -> None:
    assert refused(loopback_only=True, host=host) is None


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "notlocalhost",
        "10.0.0.1",
        "[2001:db8::1]:8080",
        "",
        "[",
        "127.0.0.1@evil.example",
        "127.0.0.1:99999",
    ],
)
def test_other_names_lead_here_by_rebinding_only(host: str) -> None:
    assert refused(loopback_only=True, host=host) == "Host"
    assert refused(loopback_only=False, host=host) is None, "a router in a cluster has many names"


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://127.0.0.1:8080", HERE),
        ("http://localhost", "localhost:80"),
        ("http://localhost:80", "localhost"),
        ("https://pumas.example", "pumas.example"),
        ("https://Pumas.example", "pumas.example:443"),
        ("http://[::1]:8080", "[::1]:8080"),
    ],
)
def test_a_page_of_this_very_server(origin: str, host: str) -> None:
    assert refused(loopback_only=False, host=host, origin=origin) is None


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://evil.example:8080",
        "http://127.0.0.1",
        "http://127.0.0.1:3000",
        "http://localhost:8080",
        "https://127.0.0.1",
        "ftp://127.0.0.1:8080",
        "null",
        "",
        "127.0.0.1:8080",
        "http://",
        "http://[",
        "http://127.0.0.1:8080@evil.example",
    ],
)
@pytest.mark.parametrize("loopback_only", [True, False])
def test_pages_of_others(origin: str, loopback_only: bool) -> None:
    assert refused(loopback_only=loopback_only, host=HERE, origin=origin) == "Origin"
    assert refused(loopback_only=loopback_only, origin=origin) == "Origin", "no host at all"


@pytest.mark.parametrize("action", ["load", "unload"])
async def test_a_page_of_another_server_does_nothing(
    catalogue: RunningCatalogue, action: str
) -> None:
    path = f"{BASE}/{A}/{action}"
    simple = {"Content_Type": "text/plain", "Idempotency_Key": "k"}
    for fields in (
        {"Origin": "http://evil.example"},
        {"Origin": "http://evil.example", "Host": "evil.example"},
        {"Host": "evil.example"},
        {"Origin": "null"},
    ):
        told = await catalogue.post(path, **simple, **fields)
        problem = assert_problem(told, "invalid_request", 400)
        assert problem["param"] in fields
        assert problem["detail"].startswith("a web page may not do this: ")
    assert catalogue.models.asked == []
    own = f"http://127.0.0.1:{catalogue.running.port}"
    told = await catalogue.post(path, **simple, Origin=own)
    assert told.status < 300
    assert "idempotent-replayed" not in told.headers, "what was refused is not kept"


async def test_reading_the_catalogue_is_not_fenced(catalogue: RunningCatalogue) -> None:
    told = await catalogue.get(Origin="http://evil.example", Host="evil.example")
    assert told.status == 200
