"""Where a source is fetched from. Pure."""

from __future__ import annotations

import string
from collections.abc import Mapping
from urllib.parse import quote, unquote, urlsplit

from pumas_crds.source import HUB_HOST, HUB_VARIABLE, Source


def source_url(source: Source, environ: Mapping[str, str]) -> str | None:
    """The URL of a source that has to be fetched; None for a file that is there already."""
    if source.http is not None:
        # HTTP knows ASCII only; all else is sent as browsers send it.
        return quote(source.http.url, safe=string.punctuation)
    if source.hugging_face is not None:
        hub, at = environ.get(HUB_VARIABLE) or f"https://{HUB_HOST}", source.hugging_face
        # A revision may hold slashes and is one member of the path all the same.
        revision, file = quote(at.revision, safe=""), quote(at.file)
        return f"{hub.rstrip('/')}/{at.repo}/resolve/{revision}/{file}"
    return None


def source_path(source: Source) -> str | None:
    """Where a remote source lies on its server or in its repository, without a leading slash.

    Quoted as in a URL: a server may tell one quoting from another.
    """
    if source.http is not None:
        return urlsplit(quote(source.http.url, safe=string.punctuation)).path.removeprefix("/")
    return quote(source.hugging_face.file) if source.hugging_face is not None else None


def neighbour(source: Source, path: str) -> Source:
    """The source of another file of the same server or repository; `path` as `source_path` has it.

    The query stays: it may hold what gives access.
    """
    if source.hugging_face is not None:
        at = source.hugging_face.model_copy(update={"file": unquote(path)})
        return source.model_copy(update={"hugging_face": at})
    if source.http is not None:
        url = urlsplit(source.http.url)._replace(path=f"/{path}").geturl()
        return source.model_copy(update={"http": source.http.model_copy(update={"url": url})})
    raise ValueError("a source that is not remote has no neighbours to fetch")
