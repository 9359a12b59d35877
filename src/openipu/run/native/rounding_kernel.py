"""Native code for stochastic rounding: one library for any shape and any program.

In: what becomes of numbers that are too large. Out: the code is installed for the instant tier, at once if the user's
cache has it, else when a process in the background has compiled it. Until then, and without a compiler, the rounding
runs as single operators, with the same results.
"""

from __future__ import annotations

import logging
from typing import Any

import torch

from openipu.graph import GraphInput, GraphOutput, InputKind, OutputKind
from openipu.numerics import Overflow
from openipu.run.native.build import NativeBuild, NativeJob, NativeProgram, find_native, make_native_key
from openipu.run.native.signature import Signature
from openipu.run.rounded_draws import RoundingKernel, has_kernel, install_kernel

_logger = logging.getLogger("openipu")
_NAME = "stochastic rounding"
_EXAMPLE_ROWS, _EXAMPLE_COLUMNS = 24, 40  # neither is special: code is for any number of both

# Of this process, whichever program asked first; None where it has ended.
_builds: dict[Overflow, NativeBuild | None] = {}


def prepare_rounding(overflow: Overflow, *, build: bool) -> None:
    """Install the code from the cache; else, if it may be built, start that."""
    if has_kernel(overflow) or overflow in _builds:
        return
    job = write_job(overflow)
    try:
        native = find_native(job.key)
        if native is not None:
            _install(overflow, native)
        elif build:
            _builds[overflow] = NativeBuild(job, background=True)
            _logger.info("Code for stochastic rounding is being compiled in the background, for all programs.")
    except Exception as error:  # whatever a loader or a compiler raises, the operators give the same results
        _give_up(overflow, error)


def take_over_rounding(overflow: Overflow) -> None:
    """Install what was built in the background, once it is there."""
    build = _builds.get(overflow)
    if build is None or not build.done:
        return
    _builds[overflow] = None
    try:
        _install(overflow, build.finish())
        _logger.info("Stochastic rounding has native code from here on, with the same results.")
    except Exception as error:
        _give_up(overflow, error)


def _give_up(overflow: Overflow, error: Exception) -> None:
    _builds[overflow] = None
    _logger.debug("Stochastic rounding stays without native code: %s.", error)


def write_job(overflow: Overflow) -> NativeJob:
    """What the compiling process is told."""
    key = make_native_key({"kernel": _NAME, "overflow": overflow.value})
    text, tensors = _describe().write()
    options = {"cpp.vec_isa_ok": True}  # as for programs: no test of each instruction set
    unit = {"kernel": overflow.value, "options": options, "signature": text.decode(), "constants": tensors.hex()}
    return NativeJob(key, {"units": [unit], "fold": 1, "threads": torch.get_num_threads(), "name": _NAME})


def export_kernel(overflow: str) -> tuple[torch.fx.GraphModule, tuple[torch.Tensor, ...]]:
    """The graph for any number of rows and columns, with an example of its operands."""
    examples = (torch.zeros(_EXAMPLE_ROWS, _EXAMPLE_COLUMNS), torch.zeros(_EXAMPLE_ROWS, dtype=torch.int32))
    free = torch.export.Dim.DYNAMIC
    shapes: Any = ({0: free, 1: free}, {0: free})
    exported = torch.export.export(RoundingKernel(Overflow(overflow)), examples, dynamic_shapes=shapes)
    module: Any = exported.module()
    return module, examples


def _install(overflow: Overflow, native: NativeProgram) -> None:
    (function,) = native.functions
    install_kernel(overflow, function.run)


def _describe() -> Signature:
    rows, keys = (_EXAMPLE_ROWS, _EXAMPLE_COLUMNS), (_EXAMPLE_ROWS,)
    placeholders = (
        GraphInput("", InputKind.INPUT, "rows", rows, torch.float32, 0),
        GraphInput("", InputKind.INPUT, "keys", keys, torch.int32, 1),
    )
    return Signature(placeholders, (), (GraphOutput(OutputKind.OUTPUT, "rows", rows, torch.float16, 0),), {}, False)
