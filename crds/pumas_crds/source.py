"""Source: where a model's weights file is, in exactly one of the ways that the fetcher knows.

Everything here is a stranger's text that becomes part of a URL, a mount or a file's name, so each
member is closed by a pattern: no member of a path is `.`, `..` or empty, none holds a control
character, and a URL carries neither credentials nor a fragment.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Self
from urllib.parse import unquote, urlsplit

from pydantic import Field, field_validator, model_validator

from pumas_crds.addressed import Addressed, url_rule
from pumas_crds.resource import Closed, Rule, closed

#: One member of a path: any text but `.` and `..`, without slashes and control characters.
_MEMBER = r"([^./\x00-\x1f\x7f]|\.[^./\x00-\x1f\x7f]|\.\.[^/\x00-\x1f\x7f])[^/\x00-\x1f\x7f]*"
RELATIVE_PATH = rf"^{_MEMBER}(/{_MEMBER})*$"
REPO_PATTERN = r"^([A-Za-z0-9][A-Za-z0-9._-]*/)?[A-Za-z0-9][A-Za-z0-9._-]*$"
REVISION_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*$"
OBJECT_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"
HTTP_URL = r"^https?://[^\x00-\x20\x7f#@\\]+$"

#: A variable by which a profile names another hub than `HUB_HOST`.
HUB_VARIABLE = "HF_ENDPOINT"
HUB_HOST = "huggingface.co"
#: What a file is called whose URL does not tell a name.
UNNAMED = "model.gguf"
NAME_BYTES = 200

_HEX_COMMIT = re.compile(r"[0-9a-f]{40}")


class HuggingFaceSource(Closed):
    """A file of a repository of the Hugging Face hub."""

    repo: Annotated[str, Field(min_length=1, max_length=193, pattern=REPO_PATTERN)]
    """The repository, such as `Qwen/Qwen3-8B-GGUF`."""
    revision: Annotated[str, Field(min_length=1, max_length=128, pattern=REVISION_PATTERN)] = "main"
    """A commit of 40 hexadecimal digits, or the name of a branch or tag, which may move."""
    file: Annotated[str, Field(min_length=1, max_length=512, pattern=RELATIVE_PATH)]
    """The file's path in the repository."""

    @property
    def pinned(self) -> bool:
        """Whether the revision is a commit, and so always the same file."""
        return _HEX_COMMIT.fullmatch(self.revision) is not None


class HttpSource(Addressed):
    """A file that an HTTP server gives."""

    URL_RULE = url_rule("source.http.url")
    model_config = closed(URL_RULE)

    url: Annotated[str, Field(min_length=1, max_length=2048, pattern=HTTP_URL)]
    """`http` or `https`, without user name and fragment."""


class ClaimSource(Closed):
    """A file on a volume of the model's namespace."""

    claim_name: Annotated[str, Field(min_length=1, max_length=253, pattern=OBJECT_NAME)]
    """The PersistentVolumeClaim."""
    path: Annotated[str, Field(min_length=1, max_length=1024, pattern=RELATIVE_PATH)]
    """The file's path on the volume, without a leading slash."""


_ONE_SOURCE_RULE: Rule = (
    "[has(self.huggingFace), has(self.http), has(self.persistentVolumeClaim),"
    " has(self.path)].filter(given, given).size() == 1",
    "source needs exactly one of: huggingFace, http, persistentVolumeClaim, path",
)
_PATH_RULE: Rule = (
    r"!has(self.path) || !self.path.matches('[\\x00-\\x1f\\x7f]')",
    "a path holds no control characters",
)


class Source(Closed):
    """Where the weights are. Exactly one member."""

    model_config = closed(_ONE_SOURCE_RULE, _PATH_RULE)

    hugging_face: HuggingFaceSource | None = None
    """A file of the Hugging Face hub."""
    http: HttpSource | None = None
    """A file that an HTTP server gives."""
    persistent_volume_claim: ClaimSource | None = None
    """A file on a volume of the model's namespace."""
    path: Annotated[str, Field(min_length=1, max_length=1024)] | None = None
    """A file on the machine that serves, where the profile's allowedHostPaths permits it.

    Relative: to the manifest's folder (local mode only).
    """

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        members = (self.hugging_face, self.http, self.persistent_volume_claim, self.path)
        if sum(member is not None for member in members) != 1:
            raise ValueError(_ONE_SOURCE_RULE[1])
        return self

    @field_validator("path")
    @classmethod
    def _no_control_characters(cls, path: str | None) -> str | None:
        if path is not None and re.search(r"[\x00-\x1f\x7f]", path):
            raise ValueError(_PATH_RULE[1])
        return path

    @property
    def remote(self) -> bool:
        """Whether the file has to be fetched; else it is served where it lies."""
        return self.hugging_face is not None or self.http is not None

    def file_name(self) -> str:
        """The last component, which is what may be said of a source outside this machine."""
        if self.hugging_face is not None:
            return PurePosixPath(self.hugging_face.file).name
        if self.persistent_volume_claim is not None:
            return PurePosixPath(self.persistent_volume_claim.path).name
        if self.http is not None:
            return _name_of(self.http.url)
        return PurePosixPath(self.path or "").name

    def relative_name(self) -> str:
        """Where the file lies among those that it belongs to: in a repository, its path there.

        Of a URL the last folder is kept: what belongs to a file lies beside it or one above.
        """
        if self.hugging_face is not None:
            return self.hugging_face.file
        if self.http is not None:
            folder = _member_of(self.http.url, -2)
            return f"{folder}/{self.file_name()}" if folder else self.file_name()
        return self.file_name()

    def model_id(self) -> str:
        """The library identifier that the source tells: the hub's repository, else the file."""
        if self.hugging_face is not None:
            return self.hugging_face.repo
        return self.file_name().removesuffix(".gguf")


def _name_of(url: str) -> str:
    """A URL's last component, if a file can be called so."""
    return _member_of(url, -1) or UNNAMED


def _member_of(url: str, place: int) -> str:
    """A component of a URL's path, if a file or a folder can be called so; else empty."""
    members = urlsplit(url).path.split("/")
    name = unquote(members[place]) if len(members) >= -place else ""
    fits = len(name.encode(errors="replace")) <= NAME_BYTES
    return name if fits and re.fullmatch(_MEMBER, name) else ""
