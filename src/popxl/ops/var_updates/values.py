"""Factors of updates: numbers, or tensors of the program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from openipu.graph import Phase
from popxl.context import get_current_context
from popxl.ops.utils import check_tensor_ipu_and_tile_set, make_in_place, make_one
from popxl.tensor import Tensor


def update(
    kind: str,
    function: Callable[..., Any],
    tensors: Mapping[str, Tensor],
    factors: Mapping[str, Any] | None = None,
    *,
    in_place: bool = True,
    writes: tuple[int, ...] = (),
) -> Tensor:
    """An op of the update. `function(*tensors, **factors)`: factors that are tensors arrive as their values."""
    given = dict(factors or {})
    names = [name for name, value in given.items() if isinstance(value, Tensor)]
    inputs = [*tensors.values(), *(given[name] for name in names)]
    check_tensor_ipu_and_tile_set(**tensors, **{name: given[name] for name in names})
    count = len(tensors)

    def run(*values: Any) -> Any:
        return function(*values[:count], **{**given, **dict(zip(names, values[count:], strict=True))})

    context = get_current_context()
    with context.standing_for(Phase.UPDATE, context.find_line()):
        if in_place:
            return make_in_place(kind, run, inputs)
        return make_one(kind, run, inputs, writes=writes)
