"""Manifest files: YAML in, ServedModels and ServingProfiles out, or one sentence that says why not.

Read as a cluster would read it: the wire's camelCase only, no coercion, unknown fields refused by
name, a status ignored. A relative `source.path` or `projector.path` is relative to the file that
names it.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError

from pumas_crds.served_model import ServedModel, ServedModelStatus
from pumas_crds.serving_profile import ServingProfile
from pumas_crds.source import Source
from pumas_crds.vocabulary import API_VERSION
from pumas_local import complaint, documents
from pumas_local.documents import Document

Resource = ServedModel | ServingProfile

KINDS: dict[str, type[Resource]] = {"ServedModel": ServedModel, "ServingProfile": ServingProfile}


class ManifestError(Exception):
    """A manifest that cannot be used. The sentence names document and field."""

    def __init__(self, path: Path, sentence: str) -> None:
        super().__init__(f"{path}: {sentence}")
        self.path = path
        self.sentence = sentence


@dataclass(frozen=True, slots=True)
class Manifests:
    """What the files hold, in the order of files and documents."""

    models: tuple[ServedModel, ...]
    profiles: tuple[ServingProfile, ...] = ()


def read_manifests(paths: Sequence[Path]) -> Manifests:
    """Read all files. Raises `ManifestError` for the first that cannot be used."""
    models: dict[tuple[str, str], ServedModel] = {}
    profiles: dict[str, ServingProfile] = {}
    for path in paths:
        for document, resource in _read_file(path):
            name = resource.metadata.name
            if isinstance(resource, ServedModel):
                key = (resource.metadata.namespace, name)
                taken = models.setdefault(key, resource) is not resource
            else:
                taken = profiles.setdefault(name, resource) is not resource
            if taken:
                sentence = f"{document}: there already is a {resource.kind} named {name}."
                raise ManifestError(path, sentence)
    return Manifests(tuple(models.values()), tuple(profiles.values()))


def _read_file(path: Path) -> Iterator[tuple[Document, Resource]]:
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise ManifestError(path, f"cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ManifestError(path, f"is not UTF-8 at byte {error.start}.") from error
    found = 0
    try:
        for document in documents.parse(text):
            found += 1
            yield document, _resource(path, document)
    except documents.NotYaml as error:
        raise ManifestError(path, str(error)) from error
    if not found:
        raise ManifestError(path, "holds no document.")


def _resource(path: Path, document: Document) -> Resource:
    kind = _kind(path, document)
    try:
        resource = kind.model_validate_json(
            document.json, strict=True, by_alias=True, by_name=False
        )
        return _placed(path, resource) if isinstance(resource, ServedModel) else resource
    except ValidationError as error:
        raise ManifestError(path, f"{document}: {complaint.describe(kind, error)}.") from error


def _kind(path: Path, document: Document) -> type[Resource]:
    for field, allowed in (("apiVersion", [API_VERSION]), ("kind", list(KINDS))):
        value, expected = document.content.get(field), " or ".join(allowed)
        if value is None:
            raise ManifestError(path, f"{document}: {field} is required: {expected}.")
        if value not in allowed:
            found = complaint.show(value)
            raise ManifestError(path, f"{document}: {field} must be {expected}, not {found}.")
    return KINDS[str(document.content["kind"])]


def _placed(path: Path, model: ServedModel) -> ServedModel:
    """What a cluster would add: a uid, an empty status; and where a relative path leads."""
    metadata, spec = model.metadata, model.spec
    if not metadata.uid:
        identity = f"{API_VERSION}/{metadata.namespace}/{metadata.name}"
        uid = str(uuid.uuid5(uuid.NAMESPACE_URL, identity))
        metadata = metadata.model_copy(update={"uid": uid})
    for field, source in (("source", spec.source), ("projector", spec.projector)):
        if source is not None and source.path is not None:
            absolute = os.path.normpath(path.absolute().parent / source.path)
            spec = spec.model_copy(update={field: Source(path=absolute)})
    update: dict[str, BaseModel] = {
        "metadata": metadata,
        "spec": spec,
        "status": ServedModelStatus(),
    }
    return model.model_copy(update=update)
