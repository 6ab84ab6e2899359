"""Where a source is fetched from. Pure."""

from __future__ import annotations

import string
from collections.abc import Mapping
from urllib.parse import quote

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
