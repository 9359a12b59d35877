"""Products with a sparse matrix of blocks, as the vendor's sparse library computes them.

In: the sizes of a product, the share of blocks that are there, their side, and whether the pattern is known when
compiling. Out: `OpCost`, from the plan of the dense product: the multiply and the weights on their way shrink with the
density; the dense operand and partial sums stay. Blocks that fill the AMP units use them, smaller ones the vector path.
"""

from __future__ import annotations

import dataclasses

from openipu.errors import PlanError
from openipu.machine import Provenance
from openipu.ops.cost import CostContext, CostStep, OpCost, StepKind
from openipu.ops.linear import cost_matmul
from openipu.ops.linear.steps import OPERAND_EXCHANGE

UNEVEN_BLOCKS = (
    1.3  # derived: the fullest tile of a random pattern; fitted on published static products of single weights
)
DYNAMIC_OVERHEAD = 1.55  # derived: buckets with room to spare, and a second pass for what overflows; fitted likewise
_SMALLEST_AMP_BLOCK = 4  # published: Poplibs uses the AMP units for blocks of 4 and more


def cost_sparse_matmul(
    *,
    rows: int,
    inner: int,
    columns: int,
    density: float,
    block: int,
    dynamic: bool,
    half: bool,
    context: CostContext,
) -> OpCost:
    """`[rows, inner] @ sparse [inner, columns]`."""
    if not 0 < density <= 1:
        raise PlanError(f"A sparse product needs a density above 0 and up to 1, not {density!r}.")
    sums_in_float = dataclasses.replace(context, half_partials=False)  # the sparse library's own default
    dense = cost_matmul(batches=1, rows=rows, inner=inner, columns=columns, half=half, context=sums_in_float)
    slower = 1.0 if block >= _SMALLEST_AMP_BLOCK else _compare_paths(half, context)
    overhead = UNEVEN_BLOCKS * (DYNAMIC_OVERHEAD if dynamic else 1.0)
    weight_cycles = dense.plan.get("received_weight_bytes", 0) / context.target.exchange_bytes_per_cycle
    spared_cycles = (1 - density) * weight_cycles
    steps = tuple(_thin_out(step, density, slower, overhead, dynamic, spared_cycles) for step in dense.steps)
    return dataclasses.replace(
        dense,
        steps=steps,
        provenance=Provenance.GUESSED,
        basis="plan of the dense product, with the multiply and the weights thinned out",
    )


def _compare_paths(half: bool, context: CostContext) -> float:
    """Products a cycle of the AMP units over those of the vector path."""
    element_bytes = 2 if half else 4
    vector = context.target.vector_bytes // element_bytes
    return context.target.amp_flops_per_cycle_per_tile(element_bytes) / 2 / vector


def _thin_out(
    step: CostStep, density: float, slower: float, overhead: float, dynamic: bool, spared_cycles: float
) -> CostStep:
    if step.flops:
        flops = round(step.flops * density)
        return dataclasses.replace(step, cycles=step.cycles * density * slower * overhead, flops=flops)
    if step.kind is not StepKind.EXCHANGE:
        return step
    cycles = step.cycles - (spared_cycles if step.name == OPERAND_EXCHANGE else 0.0)
    return dataclasses.replace(step, cycles=cycles * (DYNAMIC_OVERHEAD if dynamic else 1.0))
