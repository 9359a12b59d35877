"""A program that is planned again and again: what its plans have in common.

In: nodes and sites of one program. Out: the same descriptions and prices as before. One plan asks for each once; a
search over many layouts of one program asks for the same thousands each time. Notes are never kept here: a layout is
written into them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass

from torch import fx

from openipu.graph import CollectiveCall
from openipu.ops import Trait, has_trait
from openipu.ops.cost import CostContext, OpCost, Operand, OpSite
from openipu.plan.lowering.bodies import list_bodies
from openipu.plan.lowering.sites import describe_argument, list_results, list_tensor_arguments
from openipu.plan.lowering.transfers import COLLECTIVE, GROUP


@dataclass(frozen=True, slots=True)
class KnownNode:
    """A node of a graph as the planner sees it, wherever it runs."""

    op: str
    is_item: bool  # one of several results: another name
    is_view: bool
    keeps_order: bool
    arguments: tuple[fx.Node, ...]  # tensors in order, with repeats
    results: tuple[tuple[int, Operand], ...]


class KnownProgram:
    """Descriptions and prices by node. The graphs must not change while it is in use; notes may."""

    def __init__(self) -> None:
        self._nodes: dict[fx.Node, KnownNode] = {}
        self._sites: dict[tuple[fx.Node, bool, frozenset[int]], OpSite] = {}
        self._texts: dict[int, tuple[OpSite, str]] = {}  # by id: of the sites above
        self._prices: dict[tuple[object, ...], OpCost] = {}
        self._targets: list[object] = []  # prices are kept by their identity

    def describe(self, node: fx.Node) -> KnownNode:
        """What a node is."""
        found = self._nodes.get(node)
        if found is None:
            op = str(node.target)
            is_item = node.target is operator.getitem
            found = self._nodes[node] = KnownNode(
                op=op,
                is_item=is_item,
                is_view=not is_item and has_trait(op, Trait.VIEW),
                keeps_order=not is_item and has_trait(op, Trait.KEEPS_ORDER),
                arguments=tuple(list_tensor_arguments(node)),
                results=tuple(list_results(node)),
            )
        return found

    def describe_site(self, node: fx.Node, backward: bool, remote: frozenset[int] = frozenset()) -> OpSite:
        """The call that a node stands for. `remote`: places of tensors beside the IPU that a loop is given."""
        found = self._sites.get((node, backward, remote))
        if found is None:
            known = self.describe(node)
            kwargs = {key: describe_argument(argument) for key, argument in node.kwargs.items()}
            if isinstance(node.target, CollectiveCall):  # replicas exchange values: how, and between how many of them
                kwargs |= {COLLECTIVE: node.target.kind, GROUP: node.target.group}
            found = self._sites[node, backward, remote] = OpSite(
                known.op,
                tuple(describe_argument(argument) for argument in node.args),
                kwargs,
                tuple(operand for _, operand in known.results),
                backward,
                list_bodies(node, remote),
            )
            self._texts[id(found)] = (found, _write_out(found))
        return found

    def write_out(self, site: OpSite) -> str:
        """A text that two sites share if they cost the same."""
        found = self._texts.get(id(site))
        return found[1] if found is not None else _write_out(site)

    def price(self, key: tuple[object, ...], context: CostContext, make: Callable[[], OpCost]) -> OpCost:
        """The price of a call in a context."""
        if not any(target is context.target for target in self._targets):
            self._targets.append(context.target)
        full = (id(context.target), context.tiles, context.half_partials, *key)
        found = self._prices.get(full)
        if found is None:
            found = self._prices[full] = make()
        return found


def _write_out(site: OpSite) -> str:
    return f"{site.op}{site.args!r}{site.kwargs!r}{site.outputs!r}{site.bodies!r}"
