"""Runs an exported module in a process in which openipu cannot be imported, and compares.

In: the file and its snapshot. Out: comparisons of outputs, and for training of the weights after some updates.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from openipu.errors import ExportError
from openipu.export.comparison import Comparison, compare
from openipu.export.reference import SEED, choose_steps, draws_random_numbers, run_executable, run_graphs
from openipu.export.snapshot import Snapshot
from openipu.export.torch_file.module_text import list_paths
from openipu.graph import InputKind, OutputKind

_SECONDS = 3600  # a large model on a slow machine
_SCRIPT = """\
import sys
for name in ("openipu", "openipu_startup", "poptorch", "popart", "poplar"):
    sys.modules[name] = None  # to import one of them is an error
import importlib.util
import torch
from torch.utils import _pytree
place, given, results, seed = sys.argv[1:]
specification = importlib.util.spec_from_file_location("exported", place)
module = importlib.util.module_from_spec(specification)
specification.loader.exec_module(module)
model = module.Model()
content = torch.load(given, weights_only=True)
torch.manual_seed(int(seed))
outputs = []
for inputs in content["steps"]:
    if content["training"]:
        found = model.train_step(*inputs)
    else:
        with torch.no_grad():
            found = model(*inputs)
    parts = found if content["parts"] > 1 else [found]
    outputs.append([[leaf for leaf in _pytree.tree_leaves(part) if isinstance(leaf, torch.Tensor)] for part in parts])
state = getattr(model, "optimizer_state", {})
torch.save({"outputs": outputs, "held": dict(model.state_dict()), "state": state}, results)
"""


def check_module(snapshot: Snapshot, file: Path) -> list[Comparison]:
    """Hold the module against openipu's results; a mismatch is an `ExportError`."""
    program, steps = snapshot.program, choose_steps(snapshot)
    entries = sorted(program.micro.inputs_of(InputKind.INPUT), key=lambda entry: entry.index)
    parts = snapshot.micro_batches if program.training else 1
    content = {
        "training": program.training,
        "parts": parts,
        "steps": [[step[entry.name] for entry in entries] for step in steps],
    }
    found = _run(file, content)
    by_graph, after = run_graphs(snapshot, steps)
    own = by_graph if draws_random_numbers(snapshot) else run_executable(snapshot, steps)
    outputs = sorted(program.micro.outputs_of(OutputKind.OUTPUT), key=lambda entry: entry.index)
    expected, results = {}, {}
    for number, (reference, given) in enumerate(zip(own, found["outputs"], strict=True)):
        for place, entry in enumerate(outputs):
            name = f"{entry.name} of update {number + 1}" if program.training else entry.name
            expected[name] = reference[entry.name]
            results[name] = _join([part[place] for part in given])
    comparisons = [compare("outputs", expected, results)]
    if program.training or program.micro.outputs_of(OutputKind.BUFFER):
        paths = list_paths(snapshot)
        held = {paths[name]: value for name, value in {**after.parameters, **after.buffers}.items()}
        title = f"weights after {len(steps)} updates" if program.training else "buffers"
        comparisons.append(compare(title, held, found["held"]))
    if program.training and after.state:
        comparisons.append(compare("optimizer state", after.state, found["state"]))
    return comparisons


def _run(file: Path, content: Any) -> Any:
    with tempfile.TemporaryDirectory(prefix="openipu-check-") as place:
        folder = Path(place)
        torch.save(content, folder / "given.pt")
        (folder / "check.py").write_text(_SCRIPT, encoding="utf-8")
        words = [sys.executable, "-I", "-B", str(folder / "check.py"), str(file), str(folder / "given.pt")]
        done = subprocess.run(
            [*words, str(folder / "results.pt"), str(SEED)],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if done.returncode != 0:
            lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
            raise ExportError(
                f"The exported file does not run without openipu: {lines[-1] if lines else 'no message'}. Nothing was "
                "written. This is a defect of openipu: please report it with the model."
            )
        return torch.load(folder / "results.pt", weights_only=True)


def _join(parts: list[torch.Tensor]) -> torch.Tensor:
    if len(parts) == 1:
        return parts[0]
    return torch.cat(parts) if parts[0].dim() else torch.stack(parts)
