"""What a rule is, and how it reads its site.

In: an `OpSite`, whose arguments may be given by position or by name. Out: those arguments in a plain form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from openipu.errors import PlanError
from openipu.ops.cost import CostContext, OpCost, Operand, OpSite

Rule = Callable[[OpSite, CostContext], OpCost]


def read_argument(site: OpSite, position: int, name: str, default: Any = None) -> Any:
    """One argument of the call, however it was given."""
    if name in site.kwargs:
        return site.kwargs[name]
    return site.args[position] if position < len(site.args) else default


def read_operand(site: OpSite, position: int, name: str) -> Operand:
    """One tensor argument that must be there."""
    value = read_argument(site, position, name)
    if not isinstance(value, Operand):
        raise PlanError(
            f"{site.op} has no tensor as its argument {name!r} (number {position}), but {value!r}. "
            "Its rule in the op table does not match this call: please report it with the model that shows it."
        )
    return value


def read_dims(value: Any, rank: int) -> tuple[int, ...]:
    """Dimensions as counted from the front; nothing or an empty list means all of them."""
    if value is None or (isinstance(value, Sequence) and not value):
        return tuple(range(rank))
    listed = value if isinstance(value, Sequence) else (value,)
    return tuple(sorted({int(dim) % rank for dim in listed})) if rank else ()


def read_numbers(value: Any, count: int, default: int = 1) -> tuple[int, ...]:
    """A list of `count` whole numbers where ATen allows one number for all, or nothing."""
    if value is None or (isinstance(value, Sequence) and not value):
        return (default,) * count
    if isinstance(value, Sequence):
        return tuple(int(item) for item in value) if len(value) == count else (int(value[0]),) * count
    return (int(value),) * count


def largest_operand(site: OpSite) -> Operand:
    """The tensor that a pass over the data runs over: the largest of operands and results."""
    tensors = (*site.outputs, *site.operands)
    if not tensors:
        raise PlanError(f"{site.op} reads and writes no tensor, so it has no cost. Remove it from the graph.")
    return max(tensors, key=lambda tensor: tensor.elements)


def ceil_divide(dividend: int, divisor: int) -> int:
    """Whole number of pieces of size `divisor` that cover `dividend`."""
    return -(-dividend // divisor)
