"""`IPU_ONNX_DUMP_PATH` and the option `onnx_dump_path`: the compiled program as an ONNX file.

In: a program with its weights on the device, and a path. Out: an ONNX model of one micro-batch; of a training program
also its update, `NAME.update.onnx`.
"""

from __future__ import annotations

import os
from pathlib import Path

from openipu.session import Compiled
from openipu_paddle.strategy import IpuStrategy

DUMP_VARIABLE = "IPU_ONNX_DUMP_PATH"
_SUFFIX = ".onnx"


def find_dump_path(strategy: IpuStrategy) -> Path | None:
    """Where a program is to be written, if it is."""
    wanted = os.environ.get(DUMP_VARIABLE) or strategy.get_option("onnx_dump_path")
    return Path(str(wanted)) if wanted else None


def write_onnx(compiled: Compiled, path: Path) -> Path:
    """Write the program: into a directory under its own name, else under the name that is given, in .onnx."""
    if path.is_dir():
        path = path / f"{compiled.program.name}{_SUFFIX}"
    elif path.suffix != _SUFFIX:
        path = path.with_name(f"{path.name}{_SUFFIX}")
    from openipu.export import Format, export_program

    export_program(compiled, path, to=Format.ONNX, check=False)
    return path
