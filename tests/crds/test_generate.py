"""The committed CRDs equal the types, and the command that says so."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from pumas_crds.__main__ import FOLDER, main, render, render_all
from pumas_crds.schema import Schema


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "examples").mkdir()
    return tmp_path


@pytest.mark.parametrize("name", ["servedmodels.yaml", "servingprofiles.yaml"])
def test_the_committed_file_is_what_the_types_say(name: str) -> None:
    committed = (FOLDER / name).read_text("utf-8")
    assert committed == render_all()[name], f"crds/{name} has drifted: run `make generate`"


def test_no_other_file_pretends_to_be_generated() -> None:
    assert {path.name for path in FOLDER.glob("*.yaml")} == set(render_all())


def test_the_header_says_how_to_regenerate() -> None:
    assert all("make generate" in text.splitlines()[0] for text in render_all().values())


def test_equal_parts_are_written_out_since_not_every_reader_follows_anchors() -> None:
    shared: Schema = {"type": "string"}
    text = render({"a": shared, "b": shared})
    assert "&" not in text and yaml.safe_load(text) == {"a": shared, "b": shared}


def test_writes_then_finds_nothing_to_report(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([], checkout) == 0
    assert "wrote crds/servedmodels.yaml" in capsys.readouterr().out
    assert main(["--check"], checkout) == 0
    assert main([], checkout) == 0
    assert capsys.readouterr().out == ""


def test_check_names_the_file_and_the_command_and_writes_nothing(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([], checkout)
    (checkout / "servedmodels.yaml").write_text("stale", "utf-8")
    (checkout / "servingprofiles.yaml").unlink()
    assert main(["--check"], checkout) == 1
    assert capsys.readouterr().err.splitlines() == [
        "crds/servedmodels.yaml differs from the types: run `make generate`",
        "crds/servingprofiles.yaml differs from the types: run `make generate`",
    ]
    assert (checkout / "servedmodels.yaml").read_text("utf-8") == "stale"
    assert not (checkout / "servingprofiles.yaml").exists()


def test_an_installed_package_has_nowhere_to_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([], tmp_path) == 1
    assert "source checkout" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
