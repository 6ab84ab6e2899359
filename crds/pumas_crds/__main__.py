"""`python -m pumas_crds`: write the CustomResourceDefinitions beside this package, or check them.

The files are committed, so that `kubectl apply` needs no Python; `--check` and a test keep them
equal to the types.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

import yaml

from pumas_crds.definitions import build_served_models, build_serving_profiles
from pumas_crds.schema import Schema

FOLDER = Path(__file__).resolve().parents[1]
COMMAND = "make generate"
HEADER = f"# Generated from the types in crds/pumas_crds. Do not edit: run `{COMMAND}`.\n"


class _Plain(yaml.SafeDumper):
    """YAML without anchors: equal parts are written out."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def render(definition: Schema) -> str:
    """The text of a generated file."""
    return HEADER + yaml.dump(
        definition, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=100
    )


def render_all() -> Mapping[str, str]:
    """The text of each generated file, by file name."""
    return {
        "servedmodels.yaml": render(build_served_models()),
        "servingprofiles.yaml": render(build_serving_profiles()),
    }


def main(arguments: list[str] | None = None, folder: Path = FOLDER) -> int:
    """Write the files, or with `--check` return 1 when one differs."""
    parser = argparse.ArgumentParser(prog="python -m pumas_crds", description="Generate the CRDs.")
    parser.add_argument("--check", action="store_true", help="write nothing, report differences")
    check: bool = parser.parse_args(arguments).check
    if not (folder / "examples").is_dir():
        print("the CRDs are generated in a source checkout only", file=sys.stderr)
        return 1
    stale = [
        (folder / name, text)
        for name, text in render_all().items()
        if not (folder / name).is_file() or (folder / name).read_text("utf-8") != text
    ]
    for path, text in stale:
        if check:
            print(f"crds/{path.name} differs from the types: run `{COMMAND}`", file=sys.stderr)
        else:
            path.write_text(text, "utf-8")
            print(f"wrote crds/{path.name}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
