"""From an op's name to its rule, and from a site to its cost.

In: `str(OpOverload)`, such as "aten.add.Tensor", or a whole `OpSite`. Out: the row of the table, or a cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from openipu.machine import Provenance
from openipu.ops.cost import CostContext, Family, OpCost, OpSite
from openipu.ops.kernels import COPY
from openipu.ops.rule import Rule
from openipu.ops.rules.control import combine_bodies
from openipu.ops.rules.streaming import TRANSFERS, cost_transfer
from openipu.ops.spread import spread_operand
from openipu.ops.steps import Steps, exchange, pass_over
from openipu.ops.table import TABLE

NO_ROW_BASIS = "no row: bytes moved"


@lru_cache(maxsize=4096)
def find_rule(op: str) -> Rule | None:
    """The rule of an op: its own row or that of all its overloads, else the same of the form that is not in place."""
    namespace, _, rest = op.partition(".")
    name, _, overload = rest.partition(".")
    for form in (name, name.removesuffix("_")):
        for row in (f"{namespace}.{form}.{overload}", f"{namespace}.{form}"):
            if row in TABLE:
                return TABLE[row]
    return None


def cost_op(site: OpSite, context: CostContext) -> OpCost:
    """What one call costs. An op without a row is costed as bytes moved and marked as a guess."""
    if site.bodies:
        costs = [[cost_op(inner, context) for inner in body.sites] for body in site.bodies]
        return combine_bodies(site, costs, context)
    if site.op in TRANSFERS:
        return cost_transfer(site, context)
    rule = find_rule(site.op)
    return rule(site, context) if rule is not None else cost_bytes_moved(site, context)


def list_ops() -> Mapping[str, Rule]:
    """Every row of the table."""
    return TABLE


def cost_bytes_moved(site: OpSite, context: CostContext) -> OpCost:
    """All operands arrive through the exchange and are read once; all results are written once."""
    arriving, tiles = 0, 0
    copies: Steps = ()
    for operand in site.operands:
        spread = spread_operand(operand, context)
        arriving += spread.elements * operand.element_bytes
        tiles = max(tiles, spread.tiles)
        copies += pass_over(COPY, operand.elements, operand.dtype, context, name="read operand")
    for result in site.outputs:
        copies += pass_over(COPY, result.elements, result.dtype, context, name="write result")
    steps = exchange("operands", arriving, tiles, context, messages=len(site.operands)) + copies
    return OpCost(
        Family.UNKNOWN,
        steps,
        scratch_bytes_per_tile=arriving,
        provenance=Provenance.GUESSED,
        basis=NO_ROW_BASIS,
    )
