"""One call of a program that was read from a file, on made-up weights and inputs.

In: a `Program` that `read_program` accepted. Out: what it returns. Whatever a kernel raises becomes a
`ProgramFileError`: an accepted program may still fail, as any model may on bad values, but in no other way.
"""

from __future__ import annotations

import torch

from openipu.errors import OpenIpuError, ProgramFileError
from openipu.graph import EngineMode, GraphInput, InputKind, Program, RunOptions
from openipu.run import Executable


def run_once(program: Program) -> list[object]:
    """Run one micro-batch, and the update of a training program: whole numbers are 0, others are a half."""
    entries = [entry for graph in (program.micro, program.update) if graph is not None for entry in graph.inputs]
    weights = {entry.name: _fill(entry) for entry in entries if entry.kind is InputKind.PARAMETER}
    buffers = {entry.name: _fill(entry) for entry in entries if entry.kind is InputKind.BUFFER}
    inputs = {entry.index: _fill(entry) for entry in entries if entry.kind is InputKind.INPUT}
    hyper = {entry.key: 0.5 for entry in program.hyper_parameters}
    try:
        executable = Executable(
            program, RunOptions(training=program.training, random_seed=0, engine=EngineMode.OPERATORS)
        )
        executable.load_weights(weights, buffers)
        executable.set_hyper_parameters(hyper)
        return list(executable.run([inputs.get(index) for index in range(max(inputs, default=-1) + 1)]).outputs)
    except OpenIpuError:
        raise
    except Exception as error:
        raise ProgramFileError(
            f"{program.name} failed when it ran ({type(error).__name__}: {str(error)[:300]}): export the model again"
        ) from error


def _fill(entry: GraphInput) -> torch.Tensor:
    value = 0.5 if entry.dtype.is_floating_point or entry.dtype.is_complex else 0
    return torch.full(entry.shape, value, dtype=entry.dtype)
