"""ATen -> ONNX: one rule an op. A row without an overload ("aten.add") stands for every overload.

In: the name of an op. Out: its rule, or none: then the op is decomposed, or refused.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import torch

from openipu.export.onnx_file.rules import elementwise, layout, linear, random, recurrent, reduction
from openipu.export.onnx_file.site import Rule

TABLE = MappingProxyType(
    elementwise.RULES | layout.RULES | linear.RULES | random.RULES | recurrent.RULES | reduction.RULES
)


def find_rule(target: Any) -> Rule | None:
    """The rule of an op, by its overload or by its name."""
    if not isinstance(target, torch._ops.OpOverload):
        return None
    name = f"{target.namespace}.{target._opname}"
    return TABLE.get(f"{name}.{target._overloadname}") or TABLE.get(name)
