"""What a remote file is, from the beginning of it: as many bytes as its header has, and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from pumas_crds.facts import FileFacts, ProjectorFacts
from pumas_crds.vocabulary import Reason
from pumas_server.worker.gguf_header import GgufHeader, read_header
from pumas_server.worker.header_fault import EndsInHeader, HeaderFault, no_model
from pumas_server.worker.inspection import file_facts
from pumas_server.worker.projector import projector_facts
from pumas_server.worker.remote_file import open_part

FIRST_BYTES = 1 << 20
#: The largest vocabularies take 30 MiB.
HEADER_BYTES_LIMIT = 256 << 20


Read = TypeVar("Read")


def fetch_facts(url: str) -> FileFacts:
    """State what the weights at `url` are. Raises `HeaderFault` and `Unreachable`."""
    return _fetch(url, file_facts)


def fetch_projector_facts(url: str) -> ProjectorFacts:
    """State what the projector at `url` is, likewise."""
    return _fetch(url, projector_facts)


def _fetch(url: str, meaning: Callable[[GgufHeader, int], Read]) -> Read:
    with open_part(url) as part:
        if part.size is None:
            raise HeaderFault(Reason.NOT_A_MODEL, "its server does not say how large it is")
        if not part.size:
            raise no_model("it is empty")
        return _whole(part.blocks(), part.size, meaning)


def _whole(blocks: Iterator[bytes], size: int, meaning: Callable[[GgufHeader, int], Read]) -> Read:
    """Read until the header is whole; each attempt has twice the bytes of the one before."""
    data = bytearray()
    wanted = FIRST_BYTES
    while True:
        for block in blocks:
            data += block
            if len(data) >= wanted:
                break
        try:
            return meaning(read_header(bytes(data), size), size)
        except EndsInHeader:
            if len(data) >= size or len(data) < wanted:
                raise
            if wanted >= HEADER_BYTES_LIMIT:
                limit = HEADER_BYTES_LIMIT >> 20
                raise no_model(f"its header is longer than {limit} MiB") from None
        wanted *= 2
