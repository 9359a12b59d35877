"""Checks and conversions that ops share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from popart import popart_exception
from popxl._ir.operation import Function, Rule, make_op
from popxl.dtypes import dtype
from popxl.graph import Graph
from popxl.tensor import Tensor


def cast_if_needed(t: Tensor, data_type: dtype) -> Tensor:
    """The tensor in a format."""
    from popxl.ops.elementwise import cast

    return t if t.dtype is data_type else cast(t, data_type)


def check_in_graph(graph: Graph, *args: Any, **tensors: Tensor) -> None:
    """Refuse what is no tensor, or one of another graph."""
    if args:
        raise TypeError("Tensors are given by name here, so that an error can name them.")
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"`{name}` is {tensor!r}, not a Tensor. Make one of it by `popxl.constant` or `popxl.variable`."
            )
        if tensor not in graph:
            raise ValueError(
                f"`{name}` belongs to another graph than {graph.name}, which is being built. Pass it as an input "
                "of that graph."
            )


def check_tensor_ipu_and_tile_set(*args: Any, **tensors: Tensor) -> None:
    """Refuse tensors of different IPUs, or of compute and I/O tiles, as inputs of one op."""
    if args:
        raise TypeError("Tensors are given by name here, so that an error can name them.")
    places = {name: tensor._get_ipu_and_tile_set(False, False) for name, tensor in tensors.items()}
    for part, missing, what in ((0, -1, "IPUs"), (1, "undefined", "tile sets")):
        known = [(name, place[part]) for name, place in places.items() if place[part] != missing]
        for name, place in known[1:]:
            if place != known[0][1]:
                raise ValueError(
                    f"`{known[0][0]}` and `{name}` are located on different {what}: {known[0][1]} != {place}. "
                    "Copy one of them "
                    "first: `ops.ipu_copy`, `ops.io_tile_copy`."
                )


def handle_negative_axis(t: Tensor, axis: int) -> int:
    """An axis counted from the front."""
    return t.rank + axis if axis < 0 else axis


def list_axes(t: Tensor, axis: int | Sequence[int] | None) -> list[int]:
    """Axes of a reduction, counted from the front; all where none is given."""
    if axis is None:
        return list(range(t.rank))
    axes = [axis] if isinstance(axis, int) else list(axis)
    found = [handle_negative_axis(t, entry) for entry in axes]
    if any(not 0 <= entry < max(t.rank, 1) for entry in found):
        raise popart_exception(f"The axes {axes} are not all dimensions of {t}.")
    return found


def check_formats(kind: str, *tensors: Tensor) -> None:
    """Refuse operands of different formats: nothing is converted unasked."""
    if len({tensor.dtype for tensor in tensors}) > 1:
        shown = ", ".join(f"{tensor.id} ({tensor.dtype.name})" for tensor in tensors)
        raise popart_exception(f"{kind}: the inputs do not have the same type: {shown}. Use ops.cast for one of them.")


def make_one(kind: str, function: Function, inputs: Sequence[Tensor], **settings: Any) -> Tensor:
    """An op with one result."""
    return make_op(kind, function, inputs, **settings)[0]


def make_in_place(
    kind: str, function: Function, inputs: Sequence[Tensor], rule: Rule | None = None, **settings: Any
) -> Tensor:
    """An op that writes its result over its first input."""

    def run(target: Any, *others: Any) -> Any:
        return target.copy_(function(target, *others))

    # "pure": what backward differentiates
    return make_one(
        kind, run, inputs, rule=rule, aliases={0: 0}, writes=(0,), attributes={"pure": function}, **settings
    )


def memory(proportion: float | None) -> dict[str, Any]:
    """What plans know of an available-memory proportion."""
    return {} if proportion is None else {"available_memory_proportion": float(proportion)}
