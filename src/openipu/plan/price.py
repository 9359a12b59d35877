"""Pass "price": every task gets its `OpCost` from the op table. Equal calls are priced once."""

from __future__ import annotations

from openipu.graph import RunOptions
from openipu.machine import System
from openipu.ops import cost_op
from openipu.ops.cost import CostContext, OpCost
from openipu.plan.work import Workload


def make_context(system: System, options: RunOptions) -> CostContext:
    """What the rules may know of machine and options."""
    return CostContext(
        target=system.target,
        tiles=system.target.tiles - options.io_tiles,
        half_partials=options.half_partials,
        available_memory_proportion=options.available_memory_proportion,
    )


def price_tasks(workload: Workload, context: CostContext) -> None:
    """Look every task up in the table."""
    known: dict[str, OpCost] = {}
    for task in workload.tasks:
        site = task.site
        key = f"{site.op}{site.args!r}{site.kwargs!r}{site.outputs!r}"
        cost = known.get(key)
        if cost is None:
            cost = known[key] = cost_op(site, context)
        task.cost = cost
