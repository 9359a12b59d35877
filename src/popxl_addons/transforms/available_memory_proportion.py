"""How much of a tile's memory products may use while they run, by IPU."""

from __future__ import annotations

from collections.abc import Iterable

import popxl
from popxl._ir.operation import Op
from popxl_addons.graph_surgery import list_ops

__all__ = ["set_available_memory_proportion_by_ipu", "set_graph_available_memory_proportion_by_ipu"]

OPTION = "available_memory_proportion"


def set_available_memory_proportion_by_ipu(ir: popxl.Ir, proportions: Iterable[float]) -> None:
    """Set it for all ops of a program that have it: ``proportions[n]`` on IPU n, and the first where there is none."""
    by_ipu = list(proportions)
    for graph in ir._graphs:
        for op in list_ops(graph):
            _set(op, by_ipu)


def set_graph_available_memory_proportion_by_ipu(graph: popxl.Graph, proportions: Iterable[float]) -> None:
    """The same for a graph and those that it calls."""
    by_ipu = list(proportions)
    waiting, seen = [graph], set()
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        waiting.extend(current.called_graphs)
        for op in list_ops(current):
            _set(op, by_ipu)


def _set(op: Op, by_ipu: list[float]) -> None:
    if OPTION in op.attributes:
        proportion = by_ipu[op.ipu] if op.ipu < len(by_ipu) else by_ipu[0]
        op.attributes = {**op.attributes, OPTION: proportion}
