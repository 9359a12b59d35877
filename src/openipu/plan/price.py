"""Pass "price": every task gets its `OpCost` from the op table. Equal calls are priced once."""

from __future__ import annotations

import dataclasses
from functools import partial

from openipu.graph import RunOptions
from openipu.machine import System
from openipu.ops import Trait, cost_op, has_trait
from openipu.ops.cost import CostContext, OpCost, Operand, OpSite
from openipu.plan.lowering.known import KnownProgram
from openipu.plan.lowering.transfers import COLLECTIVE, cost_collective, find_streaming_rate
from openipu.plan.work import Workload

MEMORY_PROPORTION = "available_memory_proportion"  # keys of Note.attributes
SERIALIZATION = "serialization"  # (mode, pieces)


def make_context(system: System, options: RunOptions) -> CostContext:
    """What the rules may know of machine and options."""
    return CostContext(
        target=system.target,
        tiles=system.target.tiles - options.io_tiles,
        half_partials=options.half_partials,
        available_memory_proportion=options.available_memory_proportion,
        streaming_bytes_per_second=find_streaming_rate(system),
    )


def price_tasks(workload: Workload, system: System, options: RunOptions, program: KnownProgram) -> None:
    """Look every task up in the table; transfers already have their price."""
    context = make_context(system, options)
    by_ipu = dict(options.memory_proportions)
    known: dict[tuple[object, ...], OpCost] = {}
    for task in workload.tasks:
        if task.cost is not None:
            continue
        wished = task.note.attributes.get(MEMORY_PROPORTION, by_ipu.get(task.place.ipu))
        proportion = context.available_memory_proportion if wished is None else float(wished)
        pieces = task.note.attributes.get(SERIALIZATION)
        site = task.site
        key = (program.write_out(site), proportion, pieces)
        if key not in known and COLLECTIVE in site.kwargs:
            known[key] = cost_collective(site, options.replicas * options.instances, workload.ipus, system)
        elif key not in known:
            known[key] = program.price(key, context, partial(_price, site, context, proportion, pieces))
        task.cost = known[key]


def _price(site: OpSite, context: CostContext, proportion: float, pieces: tuple[str, int] | None) -> OpCost:
    own = dataclasses.replace(context, available_memory_proportion=proportion)
    return cost_pieces(site, own, pieces) if pieces else cost_op(site, own)


def cost_pieces(site: OpSite, context: CostContext, pieces: tuple[str, int]) -> OpCost:
    """A matrix product in equal pieces, one after the other: less scratch, more phases.

    Pieces of "output_channels" split the right matrix's columns, of "reducing_dim" the inner dimension, of
    "input_channels" the left matrix's rows.
    """
    mode, count = pieces
    operands = site.operands
    if count <= 1 or not has_trait(site.op, Trait.SERIALISABLE) or len(operands) < 2 or not site.outputs:
        return cost_op(site, context)
    left, right = operands[-2], operands[-1]
    result = site.outputs[0]
    rows, inner, columns = left.shape[-2], left.shape[-1], right.shape[-1]
    if mode == "output_channels":
        columns = -(-columns // count)
    elif mode == "reducing_dim":
        inner = -(-inner // count)
    else:
        rows = -(-rows // count)
    piece = OpSite(
        "aten.bmm.default" if len(left.shape) == 3 else "aten.mm.default",
        (
            Operand((*left.shape[:-2], rows, inner), left.dtype),
            Operand((*right.shape[:-2], inner, columns), right.dtype),
        ),
        {},
        (Operand((*result.shape[:-2], rows, columns), result.dtype),),
        site.backward,
    )
    cost = cost_op(piece, context)
    steps = tuple(dataclasses.replace(step, repeats=step.repeats * count) for step in cost.steps)
    return dataclasses.replace(cost, steps=steps, plan={**cost.plan, "pieces": count, "pieces_of": mode})
