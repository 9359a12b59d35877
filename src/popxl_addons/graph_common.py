"""What stands for a graph and for its gradient, in the forms that users hand over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias, Union

import popxl
from popxl.transforms.autodiff import GradGraphInfo

if TYPE_CHECKING:
    from popxl_addons.graph import BoundGraph, GraphWithNamedArgs

GraphLike: TypeAlias = Union[popxl.Graph, "GraphWithNamedArgs", "BoundGraph"]
GradGraphInfoLike: TypeAlias = Union[GradGraphInfo, "GraphWithNamedArgs"]
CalledGraphsGradInfo: TypeAlias = Mapping[popxl.Graph, GradGraphInfo]
CalledGraphsGradInfoLike: TypeAlias = Mapping[GraphLike, GradGraphInfoLike]


def plain_graph(graph: GraphLike) -> popxl.Graph:
    """The graph itself."""
    return graph if isinstance(graph, popxl.Graph) else graph.graph


def plain_grad_info(grad_graph: GradGraphInfoLike) -> GradGraphInfo:
    """The record of a gradient graph."""
    return grad_graph if isinstance(grad_graph, GradGraphInfo) else grad_graph.grad_graph_info


def plain_called_graphs(called: CalledGraphsGradInfoLike | None) -> dict[popxl.Graph, GradGraphInfo]:
    """Graphs to the records of their gradients."""
    return {plain_graph(graph): plain_grad_info(grad) for graph, grad in (called or {}).items()}
