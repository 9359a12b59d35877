"""Optimum's tests share tables and helpers that stand beside them."""

from __future__ import annotations

import sys
from pathlib import Path

import optimum.graphcore  # noqa: F401 (it quietens PopTorch, whose own tests read what it warns of)
import poptorch

poptorch.setLogLevel("WARN")
sys.path.insert(0, str(Path(__file__).parent))  # for the helpers beside the tests
