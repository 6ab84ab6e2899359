"""The benchmarks are scripts in a folder of their own; they find each other from there."""

from __future__ import annotations

import sys

from support.readme import ROOT

# At the end: benchmarks/onnx.py shall not be taken for the library.
sys.path.append(str(ROOT / "benchmarks"))
