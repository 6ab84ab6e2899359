"""Write docs/openapi.json from the contract's types; `--check` only compares."""

from __future__ import annotations

import argparse
import json
import sys
from importlib.metadata import version
from pathlib import Path

from pumas_crds.vocabulary import DISTRIBUTION
from pumas_server.router.forwarded_routes import ROUTES
from pumas_server.router.openapi import build_openapi

FILE = Path(__file__).parents[1] / "docs" / "openapi.json"


def render() -> str:
    """The document as it is committed."""
    return json.dumps(build_openapi(version(DISTRIBUTION), ROUTES), indent=2) + "\n"


def main() -> int:
    """Write, or compare."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--check", action="store_true")
    if not arguments.parse_args().check:
        FILE.write_text(render())
    elif not FILE.exists() or FILE.read_text() != render():
        print(f"{FILE.name} is not what the types say; run `make generate`.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
