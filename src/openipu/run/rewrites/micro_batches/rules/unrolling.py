"""An operator without a batched form: once for each micro-batch.

In: an old node. Out: the operator's results, stacked.
"""

from __future__ import annotations

import torch
from torch import fx

from openipu.run.rewrites.micro_batches.writer import BatchWriter, Value

aten = torch.ops.aten


def unroll(writer: BatchWriter, node: fx.Node) -> Value:
    """Write an operator F times. Always right, and as slow as a loop."""
    results: list[Value] = []
    for number in range(writer.factor):

        def pick(source: fx.Node, number: int = number) -> fx.Node:
            full = writer.read_full(source)
            return writer.call(aten.select.int, full, 0, number) if writer.is_batched(source) else full

        args, kwargs = fx.map_arg((node.args, node.kwargs), pick)
        assert isinstance(node.target, torch._ops.OpOverload)
        results.append(writer.take_items(writer.call(node.target, *args, **kwargs)))
    if isinstance(results[0], fx.Node):
        return writer.call(aten.stack.default, results)
    columns = zip(*(items for items in results if isinstance(items, tuple)), strict=True)
    return tuple(None if column[0] is None else writer.call(aten.stack.default, list(column)) for column in columns)
