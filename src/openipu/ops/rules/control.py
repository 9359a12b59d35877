"""What a loop or a branch costs: its body, as often as it runs; of two branches, the dearer.

In: a site with bodies, and the cost of every call inside them. Out: one `OpCost` with all their steps.
An IPU program is laid out before it runs, so tiles hold the memory and code of both branches, and time is planned for
the longer one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from openipu.ops.cost import CostContext, CostStep, Family, OpCost, OpSite, SiteBody
from openipu.ops.kernels import weakest
from openipu.ops.rule import ceil_divide


def combine_bodies(site: OpSite, costs: Sequence[Sequence[OpCost]], context: CostContext) -> OpCost:
    """The body that takes longest, with the scratch memory of the one that needs most."""
    totals = [body.repeats * sum(cost.cycles for cost in inner) for body, inner in zip(site.bodies, costs, strict=True)]
    longest = totals.index(max(totals))
    scratch = max(_need_scratch(body, inner, context) for body, inner in zip(site.bodies, costs, strict=True))
    known = [cost.provenance for inner in costs for cost in inner]
    plan: dict[str, object] = {"calls_inside": [len(body.sites) for body in site.bodies]}
    if len(site.bodies) > 1:
        plan["cycles_of_branches"] = [round(total) for total in totals]
    else:
        plan["passes"] = site.bodies[0].repeats
    return OpCost(
        Family.CONTROL,
        _repeat_steps(site.bodies[longest].repeats, costs[longest]),
        scratch_bytes_per_tile=scratch,
        provenance=weakest(known),
        basis="the ops inside, as often as they run; of two branches the longer",
        plan=plan,
    )


def _repeat_steps(repeats: int, costs: Sequence[OpCost]) -> tuple[CostStep, ...]:
    return tuple(replace(step, repeats=step.repeats * repeats) for cost in costs for step in cost.steps if repeats)


def _need_scratch(body: SiteBody, costs: Sequence[OpCost], context: CostContext) -> int:
    own = ceil_divide(body.live_bytes, max(1, context.tiles))
    return own + max((cost.scratch_bytes_per_tile for cost in costs), default=0)
