"""The documents of a YAML text, as JSON: what YAML has beyond JSON is refused or read as text.

Pure. As in a cluster's own reading of YAML, dates stay text; a key that stands twice is an error
here, because one of the two would be accepted and ignored.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import yaml

_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_MERGE = "tag:yaml.org,2002:merge"


class NotYaml(Exception):
    """A text that holds something else than documents of fields."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document; as text, its number and what it says it is."""

    number: int
    content: dict[str, object]
    json: str

    def __str__(self) -> str:
        kind, metadata = self.content.get("kind"), self.content.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        words = [word for word in (kind, name) if isinstance(word, str)]
        return f"document {self.number}" + (f" ({' '.join(words)})" if words else "")


def parse(text: str) -> Iterator[Document]:
    """Yield the documents that are not empty. Raises `NotYaml`."""
    number = 0
    try:
        for number, content in enumerate(yaml.load_all(text, _Loader), start=1):
            if content is not None:
                yield _document(number, content)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise NotYaml(f"document {number + 1}: {where}{error.problem}.") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise NotYaml(f"line {line}: {error.reason}.") from error
    except RecursionError as error:
        raise NotYaml(f"document {number + 1}: it is nested too deeply.") from error


def _document(number: int, content: object) -> Document:
    if not isinstance(content, dict):
        raise NotYaml(f"document {number}: it must be a mapping of fields, not {_name(content)}.")
    try:
        return Document(number, content, json.dumps(content, allow_nan=False))
    except (TypeError, ValueError) as error:
        # A set, bytes, NaN, an anchor within itself: YAML that JSON cannot express.
        raise NotYaml(f"document {number}: it holds what JSON cannot express.") from error


def _name(content: object) -> str:
    return "a list" if isinstance(content, list) else "a single value"


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own way of configuring a loader
        first: [(tag, pattern) for tag, pattern in resolvers if tag != _TIMESTAMP]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Hashable, object]:
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if (key.tag, key.value) in seen:
                    problem = f"the key {key.value!r} stands twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)
