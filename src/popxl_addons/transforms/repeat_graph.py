"""All ops of a graph in a loop."""

from __future__ import annotations

import popxl
from popxl import ops
from popxl_addons.graph_surgery import list_ops, move_ops

__all__ = ["repeat_graph"]


def repeat_graph(graph: popxl.Graph, repeat_count: int) -> popxl.Graph:
    """Have what a graph does done ``repeat_count`` times: its ops move into a new graph, which it repeats.

    Variables stay where they are. Out: the new graph; the given one if there is nothing to repeat.
    """
    if repeat_count <= 1:
        return graph
    body = graph.ir.create_empty_graph("repeat_graph")
    outer = move_ops(list_ops(graph), body)
    with graph:
        ops.repeat(body, repeat_count, inputs_dict=outer)
    return body
