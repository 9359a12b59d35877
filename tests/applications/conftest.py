"""The runner of public applications lies beside the tests' root, as scripts do."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "conformance"))
