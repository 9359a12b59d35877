"""Writes the module and its weights into a folder.

In: a `Snapshot` and a file name. Out: `name.py` and `name.pt`, which `torch.load(…, weights_only=True)` reads.
"""

from __future__ import annotations

from pathlib import Path

import torch

from openipu.export.snapshot import Snapshot
from openipu.export.torch_file.module_text import list_paths, write_module
from openipu.graph import InputKind


def write_torch_files(snapshot: Snapshot, folder: Path, name: str) -> tuple[Path, ...]:
    """Both files; the first is the one to import."""
    code, weights = folder / name, folder / Path(name).with_suffix(".pt").name
    code.write_text(write_module(snapshot, weights.name), encoding="utf-8")
    paths = list_paths(snapshot)
    program = snapshot.program
    used = {entry.name for graph in (program.micro, program.update) if graph for entry in graph.inputs_of(_CONSTANT)}
    content = {
        "parameters": {paths[key]: _own(value) for key, value in snapshot.parameters.items()},
        "buffers": {paths[key]: _own(value) for key, value in snapshot.buffers.items()},
        "constants": {key: _own(value) for key, value in program.constants.items() if key in used},
        "optimizer_state": {key: _own(value) for key, value in snapshot.state.items()},
        "hyper": dict(snapshot.hyper),
    }
    torch.save(content, weights)
    return code, weights


_CONSTANT = InputKind.CONSTANT


def _own(tensor: torch.Tensor) -> torch.Tensor:
    """Memory of its own: a view would bring all that it is a view of into the file."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)
