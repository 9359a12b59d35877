"""Where Optimum Graphcore builds ops from C++.

In: the path of a source file for Poplar. Out: an error, because there is no Poplar here to build it with.
"""

from __future__ import annotations

import os
from typing import NoReturn


def load_lib(filepath: str | os.PathLike[str], timeout: int = 5 * 60) -> NoReturn:
    """Refuse: codelets and custom ops in C++ need the Poplar SDK."""
    raise NotImplementedError(
        f"{os.fspath(filepath)} is C++ for Poplar, and runs on IPUs only. Say with openipu.register_custom_op what the "
        "op computes, or write it with PyTorch operators, as optimum.graphcore.quantization does."
    )
