"""The committed document: it is what the types say, valid, and as strict as the grammar.

Which routes and statuses are in it is held to the truth in `test_routes`.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
import schemathesis

from pumas_server.contract.records import BLANKS

ROOT = Path(__file__).parents[3]


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATOR = load_script("generate_openapi")
TEXT = (ROOT / "docs" / "openapi.json").read_text()
DOCUMENT = json.loads(TEXT)
SCHEMAS = DOCUMENT["components"]["schemas"]


def test_the_committed_document_is_what_the_types_say() -> None:
    assert GENERATOR.render() == TEXT, "docs/openapi.json is stale; run `make generate`"


def test_a_stale_document_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "openapi.json"
    monkeypatch.setattr(GENERATOR, "FILE", file)
    monkeypatch.setattr(sys, "argv", ["generate", "--check"])
    assert GENERATOR.main() == 1
    file.write_text(TEXT.replace("Operation", "Opration"))
    assert GENERATOR.main() == 1
    assert "make generate" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["generate"])
    assert GENERATOR.main() == 0
    assert file.read_text() == TEXT
    monkeypatch.setattr(sys, "argv", ["generate", "--check"])
    assert GENERATOR.main() == 0


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a JSON value."""
    if isinstance(value, dict):
        yield value
    for member in value.values() if isinstance(value, dict) else value:
        if isinstance(member, dict | list):
            yield from nodes(member)


def named_by(value: Any) -> set[str]:
    """Names of the schemas that are referred to somewhere in `value`."""
    found = {node["$ref"] for node in nodes(value) if isinstance(node.get("$ref"), str)}
    assert all(reference.startswith("#/components/schemas/") for reference in found)
    return {reference.rpartition("/")[2] for reference in found}


def reachable(*names: str) -> set[str]:
    found: set[str] = set()
    waiting = set(names)
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting |= named_by(SCHEMAS[name]) - found
    return found


def test_the_document_is_valid() -> None:
    assert DOCUMENT["openapi"] == "3.1.0"
    schemathesis.openapi.from_dict(copy.deepcopy(DOCUMENT)).validate()
    for schema in SCHEMAS.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    assert reachable(*named_by(DOCUMENT["paths"])) == set(SCHEMAS)


def test_patterns_are_of_the_dialect_of_json_schema() -> None:
    patterns = {node["pattern"] for node in nodes(SCHEMAS) if isinstance(node.get("pattern"), str)}
    assert r"^[A-Za-z0-9._:-]{1,128}$" in patterns
    for pattern in patterns:
        assert not re.search(r"\\[AZzsSwWdDbB]|\(\?", pattern), pattern


def test_blanks_are_what_strip_takes_away() -> None:
    blank = re.compile(f"[{BLANKS}]")
    every = map(chr, range(sys.maxunicode + 1))
    assert [c for c in every if bool(blank.match(c)) is not (c.strip() == "")] == []


def test_requests_are_closed_and_answers_are_open() -> None:
    request, answers = reachable("Operation"), set(SCHEMAS) - reachable("Operation")
    for name in request:
        if SCHEMAS[name].get("type") == "object":
            assert SCHEMAS[name].get("additionalProperties") is False, name
    for name in answers:
        assert "additionalProperties" not in SCHEMAS[name], name


def test_nothing_in_an_answer_is_null_but_an_unknown_request_id() -> None:
    answers = {name: SCHEMAS[name] for name in set(SCHEMAS) - reachable("Operation")}
    nullable = [
        (name, member)
        for name, schema in answers.items()
        for member, rule in schema.get("properties", {}).items()
        if {"type": "null"} in rule.get("anyOf", [])
    ]
    assert nullable == [("ErrorBody", "request_id")]
