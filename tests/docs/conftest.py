"""Lets the tests of this folder import what stands beside them, and the browser of the report's tests."""

import sys
from pathlib import Path

for folder in (Path(__file__).parent, Path(__file__).parents[1] / "report"):
    sys.path.insert(0, str(folder))
