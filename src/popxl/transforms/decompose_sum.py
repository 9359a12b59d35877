"""Sums of many tensors as sums of two: here they are never made otherwise."""

from __future__ import annotations

from popxl.graph import Graph


def decompose_sum(graph: Graph) -> Graph:
    """The same graph: gradients of one tensor are added one after the other as they come."""
    return graph
