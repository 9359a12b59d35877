"""Writing element-wise results over values that are not needed any more.

In: an element-wise graph. Out: the same graph, with operators that write into their targets, or into an intermediate
value that dies with them, instead of into new memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import fx

aten = torch.ops.aten

# Operators that may write into one of their own arguments, element by element.
_WRITES = frozenset(
    {
        aten.abs.default,
        aten.add.Tensor,
        aten.addcdiv.default,
        aten.addcmul.default,
        aten.div.Tensor,
        aten.lerp.Scalar,
        aten.lerp.Tensor,
        aten.maximum.default,
        aten.minimum.default,
        aten.mul.Tensor,
        aten.neg.default,
        aten.reciprocal.default,
        aten.rsqrt.default,
        aten.sqrt.default,
        aten.sub.Tensor,
    }
)


def write_results(graph: fx.Graph, targets: Sequence[fx.Node], output: fx.Node) -> None:
    """Write each returned value over its target, a placeholder of the same shape, and return nothing."""
    (returned,) = output.args
    assert isinstance(returned, tuple)
    values = [value for value in returned if isinstance(value, fx.Node)]
    last_read = _find_last_reads(graph, output)
    order = {node: index for index, node in enumerate(graph.nodes)}
    late: list[tuple[fx.Node, fx.Node]] = []
    for target, value in zip(targets, values, strict=True):
        at_once = (
            value.target in _WRITES
            and values.count(value) == 1
            and target not in values
            and _same_dtype(target, value)
            and order[last_read.get(target, value)] <= order[value]
        )
        if at_once:
            value.kwargs = {**value.kwargs, "out": target}
        elif value is not target:
            late.append((target, value))
    _reuse_dying_values(graph, set(values), last_read)
    with graph.inserting_before(output):
        # One target may be the source of another: copies first, then the writing.
        sources = [
            graph.call_function(aten.clone.default, (value,)) if value.op == "placeholder" and len(late) > 1 else value
            for _, value in late
        ]
        for (target, _), source in zip(late, sources, strict=True):
            graph.call_function(torch.Tensor.copy_, (target, source))
    output.args = (None,)


def _reuse_dying_values(graph: fx.Graph, kept: set[fx.Node], last_read: dict[fx.Node, fx.Node]) -> None:
    for node in graph.nodes:
        if node.target not in _WRITES or "out" in node.kwargs:
            continue
        for source in node.args:
            if (
                isinstance(source, fx.Node)
                and source.op == "call_function"
                and source not in kept
                and last_read[source] is node
                and _same_dtype(source, node)
            ):
                node.kwargs = {**node.kwargs, "out": source}
                break


def _find_last_reads(graph: fx.Graph, output: fx.Node) -> dict[fx.Node, fx.Node]:
    last: dict[fx.Node, fx.Node] = {}
    for node in graph.nodes:
        if node is not output:
            last.update(dict.fromkeys(node.all_input_nodes, node))
    return last


def _same_dtype(first: fx.Node, second: fx.Node) -> bool:
    one, other = first.meta.get("val"), second.meta.get("val")
    return isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and one.dtype is other.dtype
