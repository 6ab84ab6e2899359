"""A record with a URL that names a host: one rule for the API server, its twin here."""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import urlsplit

from pydantic import field_validator

from pumas_crds.resource import Closed, Rule


def url_rule(field: str) -> Rule:
    """The rule of `Addressed`, for the API server; `field` is what the sentence calls its URL."""
    return (
        "isURL(self.url) && url(self.url).getHostname() != '' && (url(self.url).getPort() == ''"
        " || int(url(self.url).getPort()) <= 65535)",
        f"{field} needs a host, and a port of at most 65535 if it has one",
    )


class Addressed(Closed):
    """A record whose `url` names a host, and a port that exists if it names one."""

    URL_RULE: ClassVar[Rule]
    """Its `url_rule`, which stands in its `model_config` too."""

    url: str

    @field_validator("url")
    @classmethod
    def _host_and_port(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            named = bool(parts.hostname) and (parts.port is None or parts.port >= 0)
        except ValueError:
            named = False
        if not named:
            raise ValueError(cls.URL_RULE[1])
        return url

    def host(self) -> str:
        """The host that a profile's allow-list speaks of."""
        return urlsplit(self.url).hostname or ""
