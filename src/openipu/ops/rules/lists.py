"""Ops on lists of tensors, as `torch.optim` writes its updates: one compute set for the whole list.

In: a site whose arguments are lists. Out: one pass over all elements of the first list.
"""

from __future__ import annotations

from openipu.machine import Provenance
from openipu.ops import kernels as k
from openipu.ops.cost import CostContext, Family, OpCost, Operand, OpSite, Placement
from openipu.ops.kernels import Kernel, weakest
from openipu.ops.rule import Rule
from openipu.ops.steps import pass_over, wrap

_BASIS = "Poplibs popops cycle estimators, the tensors of the list side by side"


def map_list(kernel: Kernel) -> Rule:
    """A rule for an op on lists of tensors: one compute set for all of them, each tensor spread on its own."""

    def cost_list(site: OpSite, context: CostContext) -> OpCost:
        lists = [value for value in site.args if isinstance(value, list | tuple) and value]
        tensors = [value for value in lists[0] if isinstance(value, Operand)] if lists else []
        if not tensors:
            return wrap(Family.OPTIMIZER, (), basis="an empty list of tensors")
        widest = max(tensors, key=lambda tensor: tensor.element_bytes)
        elements = sum(tensor.elements for tensor in tensors)
        inputs = sum(isinstance(entries[0], Operand) for entries in lists)
        steps = pass_over(kernel, elements, widest.dtype, context, inputs=inputs)
        provenance = weakest([kernel.provenance, Provenance.DERIVED])
        return OpCost(
            Family.OPTIMIZER, steps, Placement.FOLLOW, aligned=True, in_place=True, provenance=provenance, basis=_BASIS
        )

    return cost_list


LISTS: dict[str, Rule] = {
    "aten._foreach_add": map_list(k.SCALED_ADD),
    "aten._foreach_sub": map_list(k.SCALED_ADD),
    "aten._foreach_mul": map_list(k.MULTIPLY),
    "aten._foreach_div": map_list(k.DIVIDE),
    "aten._foreach_addcmul": map_list(k.MULTIPLY_ADD),
    "aten._foreach_addcdiv": map_list(k.DIVIDE_ADD),
    "aten._foreach_lerp": map_list(k.LERP),
    "aten._foreach_maximum": map_list(k.MAXIMUM),
    "aten._foreach_sqrt": map_list(k.SQRT),
    "aten._foreach_reciprocal": map_list(k.INVERSE),
    "aten._foreach_neg": map_list(k.NEGATE),
    "aten._foreach_abs": map_list(k.ABSOLUTE),
    "aten._foreach_sign": map_list(k.SIGN),
    "aten._foreach_copy": map_list(k.COPY),
    "aten._foreach_zero": map_list(k.FILL),
    "aten._fused_sgd": map_list(k.SGD),
    "aten._fused_adam": map_list(k.ADAM),
    "aten._fused_adamw": map_list(k.ADAM),
}
