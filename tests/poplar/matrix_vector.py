"""The matrix-vector product of the tutorials, as the example has it: estimates, programs, the model that it takes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_PATH = Path(__file__).parents[2] / "examples" / "poplar" / "tut7_matrix_vector_opt.py"
_spec = importlib.util.spec_from_file_location("tut7_matrix_vector_opt", _PATH)
_example = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_example)

estimate, build, make_model = _example.estimate_cycles, _example.build_program, _example.make_device
