"""Write what the chart and its page take from elsewhere; `--check` only compares.

Three things: the chart's copies of the CRDs, `values.schema.json` (from `values.schema.yaml`, where
a ServingProfile's spec is filled in from the types, closed), and the table of values in
docs/install.md (from that schema and the chart's defaults).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

from pumas_crds.__main__ import render_all
from pumas_crds.schema import Json, Schema, structural_resource
from pumas_crds.serving_profile import ServingProfile

ROOT = Path(__file__).resolve().parents[1]
COMMAND = "make generate"
CHART = Path("charts/pumas")
PAGE = Path("docs/install.md")
BEGIN = "<!-- values: generated, run `make generate` -->\n"
END = "<!-- end of values -->\n"


def render() -> Mapping[Path, str]:
    """The text of each file, by its path in the checkout."""
    schema = build_values_schema(_read_yaml(CHART / "values.schema.yaml"))
    table = build_table(schema, _read_yaml(CHART / "values.yaml"))
    copies = {CHART / "crd-manifests" / name: text for name, text in render_all().items()}
    page = (ROOT / PAGE).read_text("utf-8")
    return copies | {
        CHART / "values.schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n",
        PAGE: replace_table(page, table),
    }


def build_values_schema(source: Schema) -> Schema:
    """The schema of the chart's values, with the part that the types know."""
    definitions = source["definitions"]
    assert isinstance(definitions, dict)
    spec = structural_resource(ServingProfile)["properties"]
    assert isinstance(spec, dict)
    return source | {"definitions": definitions | {"servingProfileSpec": closed(spec["spec"])}}


def closed(node: Json) -> Json:
    """A CRD's schema as JSON Schema that refuses unknown fields, as the chart is to do."""
    if isinstance(node, list):
        return [closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    out: Schema = {}
    for keyword, value in node.items():
        match keyword, value:
            case "properties", dict(members):
                out["properties"] = {name: closed(member) for name, member in members.items()}
                out["additionalProperties"] = False
            case "exclusiveMinimum" | "exclusiveMaximum", True:
                # A boolean beside the number in a CRD, the number itself in JSON Schema.
                out[keyword] = node[keyword.removeprefix("exclusive").lower()]
            case "x-kubernetes-int-or-string", True:
                out["type"] = ["integer", "string"]
            case "x-kubernetes-preserve-unknown-fields", True:
                out["additionalProperties"] = True
            case "maxProperties" | "minProperties" | "enum" | "required" | "default", _:
                out[keyword] = value
            case _ if keyword.startswith("x-kubernetes-"):
                continue
            case _:
                out[keyword] = closed(value)
    return out


def build_table(schema: Schema, defaults: Schema) -> str:
    """One row for each value that can be set."""
    rows = [
        f"| `{path}` | {_shown(default)} | {told} |"
        for path, default, told in leaves(schema, defaults)
    ]
    return "\n".join(["| value | default | meaning |", "|---|---|---|", *rows]) + "\n"


def leaves(
    schema: Schema, defaults: Mapping[str, Json], above: str = ""
) -> Iterator[tuple[str, Json, str]]:
    """(path, default, description) of each value. A value without a description is a fault."""
    members = schema["properties"]
    assert isinstance(members, dict)
    for name, member in members.items():
        path = f"{above}{name}"
        assert isinstance(member, dict), path
        if path == "global":
            continue
        default = defaults[name]
        if "properties" in member:
            assert isinstance(default, dict), path
            yield from leaves(member, default, f"{path}.")
        else:
            told = member["description"]
            assert isinstance(told, str), path
            yield path, default, told


def replace_table(page: str, table: str) -> str:
    """The page with the table between its two marks."""
    before, _, rest = page.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"{PAGE} lacks the lines {BEGIN.strip()} and {END.strip()}")
    return f"{before}{BEGIN}{table}{END}{after}"


def _shown(default: Json) -> str:
    if isinstance(default, dict) and default:
        return "see values.yaml"
    return f"`{json.dumps(default, ensure_ascii=False)}`"


def _read_yaml(path: Path) -> Schema:
    read = yaml.safe_load((ROOT / path).read_text("utf-8"))
    assert isinstance(read, dict), path
    return read


def main(arguments: list[str] | None = None) -> int:
    """Write, or with `--check` return 1 when a file differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, report differences")
    check: bool = parser.parse_args(arguments).check
    stale = {
        path: text
        for path, text in render().items()
        if not (ROOT / path).is_file() or (ROOT / path).read_text("utf-8") != text
    }
    for path, text in stale.items():
        if check:
            print(f"{path} has drifted: run `{COMMAND}`", file=sys.stderr)
        else:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(text, "utf-8")
            print(f"wrote {path}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
