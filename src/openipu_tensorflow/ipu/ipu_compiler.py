"""`ipu.ipu_compiler`: a function of a TF1 graph as a program for an IPU device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from openipu_tensorflow.ipu.clusters.compiling import compile_for_ipu


def compile(computation: Callable[..., Any], inputs: Any = None) -> Any:
    """Trace a computation; its results are computed on the IPU device when a session is asked for them.

    Returns a list of tensors, or an operation where the computation returns no tensor.
    """
    return compile_for_ipu(computation, inputs)
