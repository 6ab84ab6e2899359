"""What a remote file is, from the beginning of it: as many bytes as its header has, and no more."""

from __future__ import annotations

from collections.abc import Iterator

from pumas_crds.facts import FileFacts
from pumas_crds.vocabulary import Reason
from pumas_server.worker.gguf_header import read_header
from pumas_server.worker.header_fault import EndsInHeader, HeaderFault, no_model
from pumas_server.worker.inspection import file_facts
from pumas_server.worker.remote_file import open_part

FIRST_BYTES = 1 << 20
#: The largest vocabularies take 30 MiB.
HEADER_BYTES_LIMIT = 256 << 20


def fetch_facts(url: str) -> FileFacts:
    """State what the file at `url` is. Raises `HeaderFault` and `Unreachable`."""
    with open_part(url) as part:
        if part.size is None:
            raise HeaderFault(Reason.NOT_A_MODEL, "its server does not say how large it is")
        if not part.size:
            raise no_model("it is empty")
        return _facts(part.blocks(), part.size)


def _facts(blocks: Iterator[bytes], size: int) -> FileFacts:
    """Read until the header is whole; each attempt has twice the bytes of the one before."""
    data = bytearray()
    wanted = FIRST_BYTES
    while True:
        for block in blocks:
            data += block
            if len(data) >= wanted:
                break
        try:
            return file_facts(read_header(bytes(data), size), size)
        except EndsInHeader:
            if len(data) >= size or len(data) < wanted:
                raise
            if wanted >= HEADER_BYTES_LIMIT:
                limit = HEADER_BYTES_LIMIT >> 20
                raise no_model(f"its header is longer than {limit} MiB") from None
        wanted *= 2
