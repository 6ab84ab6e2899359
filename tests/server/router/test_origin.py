"""Where an endpoint's URL leads to."""

from __future__ import annotations

import pytest

from pumas_server.router.origin import Origin, place_of


@pytest.mark.parametrize(
    ("url", "host", "port", "tls", "authority", "prefix"),
    [
        ("http://10.0.0.1:8080", "10.0.0.1", 8080, False, b"10.0.0.1:8080", b""),
        ("http://models", "models", 80, False, b"models", b""),
        ("http://models:80", "models", 80, False, b"models", b""),
        ("http://models:443", "models", 443, False, b"models:443", b""),
        ("https://models", "models", 443, True, b"models", b""),
        ("https://models:8443/api/", "models", 8443, True, b"models:8443", b"/api"),
        ("http://[::1]:9000/a/b", "::1", 9000, False, b"[::1]:9000", b"/a/b"),
        ("https://[fd00::1]", "fd00::1", 443, True, b"[fd00::1]", b""),
        ("http://MODELS/a b", "models", 80, False, b"models", b"/a%20b"),
        (
            "http://bücher.example",
            "xn--bcher-kva.example",
            80,
            False,
            b"xn--bcher-kva.example",
            b"",
        ),
    ],
)
def test_its_parts(
    url: str, host: str, port: int, tls: bool, authority: bytes, prefix: bytes
) -> None:
    place = place_of(url)
    assert place.origin == Origin(host, port, tls)
    assert (place.authority, place.prefix) == (authority, prefix)


@pytest.mark.parametrize("url", ["ftp://models", "models", "/v1", "http://", "http://a:99999"])
def test_no_url_of_a_server(url: str) -> None:
    with pytest.raises(ValueError):
        place_of(url)
