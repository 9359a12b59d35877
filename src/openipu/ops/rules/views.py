"""Ops that run no code on an IPU: views, which are other names for the same bytes, and annotations.

In: a site. Out: a cost without steps. Where a view's order does not suit its reader, the planner pays to move it.
"""

from __future__ import annotations

from openipu.machine import Provenance
from openipu.ops.cost import CostContext, Family, OpCost, OpSite, Placement
from openipu.ops.rule import Rule


def cost_view(site: OpSite, context: CostContext) -> OpCost:
    """Another name for the same bytes."""
    return OpCost(Family.VIEW, (), Placement.ALIAS, provenance=Provenance.DERIVED, basis="a view: no code is run")


def cost_marker(site: OpSite, context: CostContext) -> OpCost:
    """An annotation for profilers."""
    return OpCost(Family.MARKER, (), Placement.ALIAS, provenance=Provenance.DERIVED, basis="an annotation: no code")


VIEWS: dict[str, Rule] = {
    "aten.view": cost_view,
    "aten._unsafe_view": cost_view,
    "aten.view_as": cost_view,
    "aten.reshape": cost_view,
    "aten._reshape_alias": cost_view,
    "aten.flatten": cost_view,
    "aten.unflatten": cost_view,
    "aten.squeeze": cost_view,
    "aten.unsqueeze": cost_view,
    "aten.permute": cost_view,
    "aten.transpose": cost_view,
    "aten.t": cost_view,
    "aten.movedim": cost_view,
    "aten.expand": cost_view,
    "aten.expand_as": cost_view,
    "aten.broadcast_to": cost_view,
    "aten.slice": cost_view,
    "aten.select": cost_view,
    "aten.narrow": cost_view,
    "aten.split": cost_view,
    "aten.split_with_sizes": cost_view,
    "aten.unsafe_split": cost_view,
    "aten.unsafe_split_with_sizes": cost_view,
    "aten.chunk": cost_view,
    "aten.unbind": cost_view,
    "aten.diagonal": cost_view,
    "aten.unfold": cost_view,
    "aten.as_strided": cost_view,
    "aten.alias": cost_view,
    "aten.detach": cost_view,
    "aten.lift": cost_view,
    "aten.lift_fresh": cost_view,
    "aten.view_as_real": cost_view,
    "aten.view_as_complex": cost_view,
    "profiler._record_function_enter_new": cost_marker,
    "profiler._record_function_exit": cost_marker,
}
