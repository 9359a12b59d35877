"""Runs the public tests of PopTorch Geometric's loaders on our `poptorch_geometric`.

    OPENIPU_POPTORCH_CHECKOUT=path/to/poptorch python tests/conformance/run_geometric.py [pytest's arguments]

Of `tests/gnn` these are the modules that need no native library of PyTorch Geometric and no private name of the
original. `test_fixed_size_dataloader` itself is left out: it pads single molecules to 8,000 edges each, ten times over.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

VARIABLE = "OPENIPU_POPTORCH_CHECKOUT"
HERE = Path(__file__).resolve().parent
MODULES = ("stream_packing_sampler", "neighbor_loader", "cluster_loader", "fixed_size_options", "dataloader")
LEFT_OUT = ("test_dataloader.py::test_fixed_size_dataloader[",)


def main(arguments: list[str]) -> int:
    folder = Path(os.environ.get(VARIABLE, "")) / "tests" / "gnn"
    if not (folder / "test_dataloader.py").is_file():
        print(f"Set {VARIABLE} to a checkout of graphcore/poptorch with tests/gnn.", file=sys.stderr)
        return 2
    command = [sys.executable, "-m", "pytest", "-q", "-p", "geometric_shims", "-p", "no:cacheprovider", "--tb=line"]
    command += [f"--rootdir={folder}", f"--confcutdir={folder}", *(f"test_{module}.py" for module in MODULES)]
    command += [word for name in LEFT_OUT for word in ("--deselect", name)]
    surroundings = os.environ | {"PYTHONPATH": str(HERE), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.run([*command, *arguments], cwd=folder, env=surroundings, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
