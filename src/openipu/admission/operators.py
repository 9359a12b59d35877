"""Which operators a program from a file may call: those that the op table has a row for.

In: an operator. Out: nothing, or the reason against it. There is no second list of operators: what capture emits beyond
the table is left out of files, and such a model is captured again where it is loaded.
"""

from __future__ import annotations

from functools import cache

import torch

from openipu.errors import ArchiveError
from openipu.graph.serial.operators import find_operator
from openipu.ops.lookup import find_rule
from openipu.ops.rules.views import cost_marker

# Rows for the planner's sake, whose kernels trust their callers: PyTorch's own fused updates, which capture replaces.
_TRUSTING = ("aten::_fused_sgd", "aten::_fused_adam", "aten::_fused_adamw")


@cache
def find_objection(operator: torch._ops.OpOverload) -> str:
    """Why a program may not call this operator; empty if it may."""
    name = operator._name
    rule = find_rule(str(operator))
    if rule is None or rule is cost_marker:
        return "is not in the table of operators that programs are made of"
    if name.partition(".")[0] in _TRUSTING:
        return "does not check its arguments, and no captured program calls it"
    try:
        find_operator(name)  # functional, registered once, in a known namespace
    except ArchiveError as error:
        return f"is refused: {error}"
    if not torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "CPU"):
        return "has no kernel for this machine"
    return ""
