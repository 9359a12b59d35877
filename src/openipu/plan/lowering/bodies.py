"""The inside of loops and branches, as the op table sees it.

In: a node whose target is a `GraphCall`. Out: one `SiteBody` for each graph that it runs, nested ones included.
"""

from __future__ import annotations

import operator

from torch import fx

from openipu.graph import Graph, GraphCall, LoopCall
from openipu.ops import Trait, has_trait
from openipu.ops.cost import OpSite, SiteBody
from openipu.plan.lowering.sites import describe_argument, list_results


def list_bodies(node: fx.Node) -> tuple[SiteBody, ...]:
    """What a loop or a branch runs; nothing for any other node."""
    call = node.target
    if not isinstance(call, GraphCall):
        return ()
    repeats = call.count if isinstance(call, LoopCall) else 1
    return tuple(SiteBody(_list_sites(body), repeats, _measure_peak(body)) for body in call.bodies)


def _list_sites(body: Graph) -> tuple[OpSite, ...]:
    return tuple(
        OpSite(
            str(node.target),
            tuple(describe_argument(argument) for argument in node.args),
            {key: describe_argument(argument) for key, argument in node.kwargs.items()},
            tuple(operand for _, operand in list_results(node)),
            bodies=list_bodies(node),
        )
        for node in body.module.graph.nodes
        if _is_work(node)
    )


def _measure_peak(body: Graph) -> int:
    """Bytes of the body's own values at the worst time; a view keeps what it shows alive."""
    nodes = list(body.module.graph.nodes)
    last_use: dict[fx.Node, int] = {}
    for position, node in enumerate(nodes):
        for source in node.all_input_nodes:
            last_use[_find_owner(source)] = position
    dying: dict[int, int] = {}
    live = peak = 0
    for position, node in enumerate(nodes):
        if _is_work(node):
            size = sum(operand.bytes for _, operand in list_results(node))
            live += size
            peak = max(peak, live)
            last = last_use.get(node, position)
            dying[last] = dying.get(last, 0) + size
        live -= dying.pop(position, 0)
    return peak


def _find_owner(node: fx.Node) -> fx.Node:
    while node.op == "call_function" and not _is_work(node) and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node


def _is_work(node: fx.Node) -> bool:
    return (
        node.op == "call_function"
        and node.target is not operator.getitem
        and not has_trait(str(node.target), Trait.VIEW)
    )
