"""What ops cost and are: `table.py` has one line per op, `traits.py` what else is known of it.

`cost_op` answers for any call, `vertex_code` knows code sizes.
"""

from openipu.ops.cost import (
    CostContext,
    CostStep,
    Family,
    OpCost,
    Operand,
    OpSite,
    Placement,
    StepKind,
)
from openipu.ops.lookup import cost_op, find_rule, list_ops
from openipu.ops.rule import Rule
from openipu.ops.rules.streaming import LOAD, STORE, cost_streaming
from openipu.ops.traits import TRAITS, Trait, find_traits, has_trait
from openipu.ops.vertex_code import (
    estimate_control_code_bytes,
    estimate_exchange_code_bytes,
    estimate_step_state_bytes,
    estimate_vertex_code_bytes,
    estimate_vertex_state_bytes,
)

__all__ = [
    "LOAD",
    "STORE",
    "TRAITS",
    "CostContext",
    "CostStep",
    "Family",
    "OpCost",
    "OpSite",
    "Operand",
    "Placement",
    "Rule",
    "StepKind",
    "Trait",
    "cost_op",
    "cost_streaming",
    "estimate_control_code_bytes",
    "estimate_exchange_code_bytes",
    "estimate_step_state_bytes",
    "estimate_vertex_code_bytes",
    "estimate_vertex_state_bytes",
    "find_rule",
    "find_traits",
    "has_trait",
    "list_ops",
]
