"""Making a tensor known in a graph further down the calls."""

from __future__ import annotations

import popxl
from popxl import Graph, Tensor
from popxl._ir.sites import CallOp
from popxl_addons.graph_surgery import add_site_input

__all__ = ["is_subgraph", "route_tensor_into_graph"]


def is_subgraph(parent: Graph, subgraph: Graph) -> bool:
    """Whether ``parent``, or a graph that it calls, is ``subgraph``."""
    waiting, seen = [parent], set()
    while waiting:
        graph = waiting.pop()
        if graph is subgraph:
            return True
        if graph not in seen:
            seen.add(graph)
            waiting.extend(graph.called_graphs)
    return False


def route_tensor_into_graph(tensor: Tensor, graph: Graph | None = None, modified: bool = False) -> Tensor:
    """The tensor as an input of a graph (the current one, unless said), through all calls that lie between.

    ``modified``: what the graph writes to it is written to the tensor.
    """
    target = graph if graph is not None else popxl.gcg()
    if tensor in target:
        return tensor
    source = tensor._graph
    if not is_subgraph(source, target):
        raise ValueError(f"{tensor} is not in the graph {target.name}, nor in a graph that calls it")
    return _route(tensor, source, target, modified, {})


def _route(tensor: Tensor, source: Graph, target: Graph, modified: bool, known: dict[Graph, Tensor]) -> Tensor:
    """The input of ``target`` that stands for the tensor; graphs between get theirs first."""
    if target is source:
        return tensor
    if target in known:
        return known[target]
    sites = [op for op in target._sites if isinstance(op, CallOp) and is_subgraph(source, op.graph)]
    outers = [_route(tensor, source, site.graph, modified, known) for site in sites]
    present = _find_present(target, sites, outers, modified)
    if present is None:
        with target:
            present = popxl.graph_input(tensor.shape, tensor.dtype, tensor.name, modified, tensor.meta_shape)
        for site, outer in zip(sites, outers, strict=True):
            add_site_input(site, present, outer, modified)
    known[target] = present
    return present


def _find_present(target: Graph, sites: list[CallOp], outers: list[Tensor], modified: bool) -> Tensor | None:
    """The input that all calls give this tensor already."""
    for place, inner in enumerate(target.inputs):
        given = [place < len(site.inputs) and site.inputs[place] is o for site, o in zip(sites, outers, strict=True)]
        carried = any(place < len(site.outputs) for site in sites if type(site) is not CallOp)
        if all(given) and not carried:
            if modified:
                for site in sites:
                    site.modified.add(place)
            return inner
    return None
