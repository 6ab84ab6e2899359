"""Every example against both its readers: the types, and the schema that the API server has.

An invalid example holds one fault and says in its first line what the error must contain. Where
the schema alone cannot tell (CEL rules, pruned fields, Kubernetes' own checks), its second line
says so, and then the schema must let it pass: each comment is tested both ways.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft4Validator
from pydantic import ValidationError

from pumas_crds.__main__ import FOLDER
from pumas_crds.definitions import IMMUTABLE
from pumas_crds.served_model import ServedModel
from pumas_crds.serving_profile import ServingProfile

TYPES: dict[str, type[ServedModel] | type[ServingProfile]] = {
    "ServedModel": ServedModel,
    "ServingProfile": ServingProfile,
}
REFUSED = "# refused: "
PASSES = "# schema passes: "
CEL = "a CEL rule refuses"


def schema_of(kind: str) -> dict[str, Any]:
    definition = yaml.safe_load((FOLDER / f"{kind.lower()}s.yaml").read_text("utf-8"))
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert isinstance(schema, dict)
    return schema


#: Draft 4, since there as in a CRD exclusiveMinimum is a boolean beside minimum.
VALIDATORS = {kind: Draft4Validator(schema_of(kind)) for kind in TYPES}


def documents(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text("utf-8")))


def refusal(document: dict[str, Any]) -> str:
    """What the types say against a document; empty when they take it."""
    try:
        TYPES[document["kind"]].model_validate(document)
    except ValidationError as error:
        return "\n".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
    return ""


def comments(path: Path) -> tuple[str, str | None]:
    """The words of an invalid example's refusal, and why the schema passes it if it does."""
    first, second = path.read_text("utf-8").splitlines()[:2]
    assert first.startswith(REFUSED), f"{path.name} does not say why it is refused"
    why = second.removeprefix(PASSES) if second.startswith(PASSES) else None
    return first.removeprefix(REFUSED), why


def named(paths: list[Path]) -> list[Any]:
    assert paths
    return [pytest.param(path, id=f"{path.parent.name}/{path.stem}") for path in sorted(paths)]


EXAMPLES = FOLDER / "examples"
VALID = named([*EXAMPLES.glob("local/*.yaml"), *EXAMPLES.glob("cluster/*.yaml")])
INVALID_PATHS = sorted(EXAMPLES.glob("invalid/*.yaml"))
INVALID = named(INVALID_PATHS)


@pytest.mark.parametrize("kind", TYPES)
def test_the_schema_is_one(kind: str) -> None:
    Draft4Validator.check_schema(schema_of(kind))


def test_no_example_is_forgotten() -> None:
    known = {path for row in [*VALID, *INVALID] for path in row.values}
    assert {path for path in EXAMPLES.rglob("*.yaml") if path.is_file()} == known


@pytest.mark.parametrize("path", VALID)
def test_an_example_satisfies_types_and_schema(path: Path) -> None:
    for document in documents(path):
        assert refusal(document) == ""
        assert [error.message for error in VALIDATORS[document["kind"]].iter_errors(document)] == []


@pytest.mark.parametrize("path", VALID)
def test_an_example_names_no_profile_that_is_neither_beside_it_nor_built_in(path: Path) -> None:
    loaded = [TYPES[document["kind"]].model_validate(document) for document in documents(path)]
    profiles = {"default"} | {r.metadata.name for r in loaded if isinstance(r, ServingProfile)}
    assert {r.profile for r in loaded if isinstance(r, ServedModel)} <= profiles


@pytest.mark.parametrize("path", INVALID)
def test_an_invalid_example_has_one_fault_and_the_types_tell_it(path: Path) -> None:
    words, _ = comments(path)
    (document,) = documents(path)
    (fault,) = refusal(document).splitlines()
    assert words in fault


@pytest.mark.parametrize("path", INVALID)
def test_the_schema_refuses_it_too_unless_the_example_says_that_it_cannot(path: Path) -> None:
    _, why = comments(path)
    (document,) = documents(path)
    errors = [error.message for error in VALIDATORS[document["kind"]].iter_errors(document)]
    if why is None:
        assert len(errors) == 1
    else:
        assert errors == []


def rules_in(node: Any) -> set[str]:
    """The messages of all CEL rules below a node."""
    match node:
        case dict():
            own = {rule["message"] for rule in node.get("x-kubernetes-validations", [])}
            return own.union(*(rules_in(child) for child in node.values()))
        case list():
            return set().union(*(rules_in(child) for child in node))
        case _:
            return set()


def test_every_cel_rule_has_its_twin_in_the_types() -> None:
    """A transition rule has none: it needs the object as it was, which only the API server has."""
    rules = set().union(*(rules_in(schema_of(kind)) for kind in TYPES))
    told = {
        message
        for path in INVALID_PATHS
        for document in documents(path)
        for message in rules
        if refusal(document).endswith(f": Value error, {message}")
    }
    assert told == rules - {message for _, message in IMMUTABLE}


@pytest.mark.parametrize(
    "path", [row for row in INVALID if CEL in (comments(row.values[0])[1] or "")]
)
def test_what_is_left_to_cel_is_left_to_a_rule_that_exists(path: Path) -> None:
    """`misspelt-source` aside: the types name the field, CEL what then is missing."""
    (document,) = documents(path)
    fault = refusal(document)
    known = rules_in(VALIDATORS[document["kind"]].schema)
    if "Extra inputs" in fault:
        del document["spec"]["sorce"]
        fault = refusal(document)
    assert any(fault.endswith(f": Value error, {message}") for message in known)
