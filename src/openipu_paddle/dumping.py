"""`IPU_ONNX_DUMP_PATH` and the option of the same meaning: the program as a file to look at.

In: a compiled program and its strategy. Out: a text file with its graphs. openipu has no ONNX of its programs: what is
written is its own graph.
"""

from __future__ import annotations

import os
from pathlib import Path

from openipu.files.saving import write_aside
from openipu.graph import Program
from openipu_paddle.strategy import IpuStrategy

DUMP_VARIABLE = "IPU_ONNX_DUMP_PATH"


def dump_program(program: Program, strategy: IpuStrategy) -> None:
    """Write the graphs where they are wanted."""
    wanted = os.environ.get(DUMP_VARIABLE) or strategy.get_option("onnx_dump_path")
    if wanted:
        write_program(program, Path(str(wanted)))


def write_program(program: Program, path: Path) -> None:
    """Both graphs as text; into a directory under the program's name."""
    graphs = [("micro", program.micro), ("update", program.update)]
    text = "\n".join(f"# {name}\n{graph.module.code}" for name, graph in graphs if graph is not None)
    place = path / f"{program.name}.txt" if path.is_dir() else path
    with write_aside(place) as part:
        part.write_text(text, encoding="utf-8")
