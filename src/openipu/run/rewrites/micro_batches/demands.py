"""What of each value the batched graph has to hold.

In: a draft. Out: which values differ between micro-batches, which of them are needed one by one, and which only as a
sum over the micro-batches: a gradient never is needed but as a sum, and computing its summands would cost as much as
the loop that batching replaces.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from openipu.graph import InputKind, OutputKind
from openipu.run.drafts.draft import Draft
from openipu.run.rewrites.micro_batches.rules.layers import find_partial
from openipu.run.rewrites.micro_batches.rules.sources import is_constant
from openipu.run.rewrites.micro_batches.totals import TOTALS, TotalRule

# Sums in a narrower format would round where the loop does not.
_SUMMED_FORMATS = (torch.float32, torch.float64)


@dataclass
class Demands:
    """Old nodes by what is needed of them."""

    batched: set[fx.Node]
    values: set[fx.Node] = field(default_factory=set)
    totals: dict[fx.Node, TotalRule | None] = field(default_factory=dict)  # None: sum the batched value
    partial: set[fx.Node] = field(default_factory=set)  # backward operators of layers that give sums of some results
    items: dict[fx.Node, set[int]] = field(default_factory=dict)  # results of them needed for each micro-batch

    def is_batched(self, node: Any) -> bool:
        return isinstance(node, fx.Node) and node in self.batched


def find_batched(draft: Draft) -> set[fx.Node]:
    """Values that differ between micro-batches."""
    different = {entry.node for entry in draft.inputs if entry.kind is InputKind.SEED}
    different |= {entry.node for entry in draft.inputs if entry.kind is InputKind.INPUT and entry.shape}
    batched: set[fx.Node] = set()
    for node in draft.graph.nodes:
        if node.op == "placeholder":
            if node.name in different:
                batched.add(node)
        elif not is_constant(node) and any(source in batched for source in node.all_input_nodes):
            batched.add(node)
    return batched


def find_demands(draft: Draft) -> Demands:
    """Walk from the results to the inputs."""
    demands = Demands(find_batched(draft))
    wanted: set[fx.Node] = set()
    for node, entry in zip(draft.results, draft.outputs, strict=True):
        if entry.kind is OutputKind.GRADIENT and node in demands.batched:
            wanted.add(node)
        else:
            demands.values.add(node)
    for node in reversed(draft.graph.nodes):
        if node.op != "call_function":
            if node in wanted:
                demands.totals[node] = None
                demands.values.add(node)
            continue
        if node in wanted:
            _demand_total(node, demands, wanted)
        if node in demands.values or node in demands.partial:
            _demand_operands(node, demands)
    return demands


def _demand_total(node: fx.Node, demands: Demands, wanted: set[fx.Node]) -> None:
    if node not in demands.batched:
        demands.totals[node] = None
        demands.values.add(node)
        return
    source = _find_layer(node, demands)
    if source is not None:
        demands.partial.add(source)
        return
    rule = TOTALS.get(node.target)
    needs = None
    # What is there anyway is summed, rather than computed in another way once more.
    if rule is not None and node not in demands.values and _keeps_precision(node):
        needs = rule.need(node, demands.is_batched)
    if needs is None:
        demands.totals[node] = None
        demands.values.add(node)
        return
    demands.totals[node] = rule
    demands.values.update(needs.values)
    wanted.update(needs.totals)


def _find_layer(node: fx.Node, demands: Demands) -> fx.Node | None:
    """The backward operator of a layer that gives the sum of this result by itself."""
    source = node.args[0] if node.args else None
    if node.target is not operator.getitem or not isinstance(source, fx.Node):
        return None
    rule, index = find_partial(source, demands.is_batched), node.args[1]
    assert isinstance(index, int)
    return source if rule is not None and index >= rule.each and _keeps_precision(node, source) else None


def _keeps_precision(node: fx.Node, source: fx.Node | None = None) -> bool:
    values = [each.meta["val"] for each in (node, *(source or node).all_input_nodes)]
    return all(value.dtype in _SUMMED_FORMATS for value in values if value.is_floating_point())


def _demand_operands(node: fx.Node, demands: Demands) -> None:
    if node.target is operator.getitem:
        source, index = node.args
        assert isinstance(source, fx.Node)
        assert isinstance(index, int)
        demands.items.setdefault(source, set()).add(index)
    if not is_constant(node):
        demands.values.update(node.all_input_nodes)
