"""Files by their name in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumas_server.worker.diffusion.folder_files import read_required
from pumas_server.worker.header_fault import HeaderFault
from pumas_server.worker.onnx.files import LocalFiles


def test_a_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    (tmp_path / "unet").mkdir()
    (tmp_path / "unet/config.json").write_bytes(b"12345")
    read = LocalFiles(tmp_path).read
    assert read("unet/config.json", 5) == b"12345"
    assert read_required(read, "unet/config.json", 5) == b"12345"
    with pytest.raises(
        HeaderFault, match=r"^the model's unet/config.json has 5 bytes; the limit is 4$"
    ):
        read("unet/config.json", 4)


def test_what_is_not_there_is_none_or_refused_without_a_path(tmp_path: Path) -> None:
    (tmp_path / "unet").mkdir()
    read = LocalFiles(tmp_path).read
    assert read("x.json", 5) is None
    with pytest.raises(HeaderFault, match=r"^the model's unet is not a regular file$"):
        read("unet", 5)
    with pytest.raises(HeaderFault, match=r"^the file unet/config.json is missing$"):
        read_required(read, "unet/config.json", 5)
