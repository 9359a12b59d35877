"""Buffers that forward writes to, where there are several replicas.

In: a program and options. Out: whether replicas may part: the running statistics of batch norms may, as they only
matter once training is over, and the host then reads those of one replica. Any other buffer is refused, unless the
options say that each replica keeps its own.
"""

from __future__ import annotations

import operator

import torch
from torch import fx

from openipu.errors import OptionError
from openipu.graph import Graph, InputKind, OutputKind, Program, RunOptions

_NORM = torch.ops.aten._native_batch_norm_legit_functional.default
_STATISTICS = (3, 4)  # running mean and variance: both as operands and, renewed, as results
_COUNT = "num_batches_tracked"


def check_written_buffers(program: Program, options: RunOptions) -> None:
    """Refuse a program whose replicas would need to agree on what forward writes."""
    if options.replicas == 1 or not options.broadcast_buffers:
        return
    own = find_running_statistics(program.micro)
    written = [entry.name for entry in program.micro.outputs_of(OutputKind.BUFFER) if entry.name not in own]
    if written:
        raise OptionError(
            f"forward writes to {'buffer' if len(written) == 1 else 'buffers'} {', '.join(written)}, and there are "
            f"{options.replicas} replicas: written buffers cannot be broadcast to replicas. Set broadcast_buffers to "
            "False, so that each replica keeps its own, or use one replica."
        )


def list_parting_statistics(program: Program, options: RunOptions) -> list[str]:
    """Running statistics that come to differ between replicas, though nobody said that buffers may."""
    if options.replicas == 1 or not options.broadcast_buffers:
        return []
    return sorted(find_running_statistics(program.micro))


def find_running_statistics(graph: Graph) -> frozenset[str]:
    """Written buffers that are the running mean or variance of a batch norm, or its count of batches."""
    (returned,) = graph.module.graph.output_node().args
    assert isinstance(returned, tuple | list)
    buffers = {entry.node: entry.name for entry in graph.inputs_of(InputKind.BUFFER)}
    written = {
        entry.name: value
        for entry, value in zip(graph.outputs, returned, strict=True)
        if entry.kind is OutputKind.BUFFER and isinstance(value, fx.Node)
    }
    found = {name for name, value in written.items() if buffers.get(_find_source(value)) == name}
    owners = {name.rpartition(".")[0] for name in found}
    counts = {name for name in written if name.rpartition(".")[2] == _COUNT and name.rpartition(".")[0] in owners}
    return frozenset(found | counts)


def _find_source(value: fx.Node) -> str:
    """The placeholder that a new running statistic comes from, past each time that its norm was applied."""
    while value.target is operator.getitem:
        norm, position = value.args
        if not isinstance(norm, fx.Node) or norm.target is not _NORM:
            return ""
        if not isinstance(position, int) or position not in _STATISTICS:
            return ""
        operand = norm.args[position]
        if not isinstance(operand, fx.Node):
            return ""
        value = operand
    return value.name if value.op == "placeholder" else ""
