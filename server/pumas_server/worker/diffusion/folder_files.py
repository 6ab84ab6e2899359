"""Reads files of a pipeline's folder by their name in it, never more than a limit.

`Read` is the seam: an inspection that has the small files from elsewhere, and the engine that has
the whole folder, read the same things by the same rules.
"""

from __future__ import annotations

from collections.abc import Callable

from pumas_server.worker.header_fault import no_model

Read = Callable[[str, int], bytes | None]
"""The bytes of a file by its name in the folder (`unet/config.json`), None when it is not there.

As `Files.read` of an encoder's folder (`onnx.files`): raises `HeaderFault` when the file has more
bytes than the limit that is the second argument.
"""


def read_required(read: Read, name: str, limit: int) -> bytes:
    """The bytes of a file that has to be there; raises `HeaderFault` when it is not."""
    data = read(name, limit)
    if data is None:
        raise no_model(f"the file {name} is missing")
    return data
