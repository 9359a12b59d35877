"""Ops that take or put elements where other tensors say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import torch

from popart import popart_exception
from popxl._ir.operation import Rule
from popxl.ops.utils import check_tensor_ipu_and_tile_set, handle_negative_axis, make_in_place, make_one, memory
from popxl.tensor import Constant, Tensor

ScatterReductionType = Literal["sum", "min", "max", "none"]
_REDUCTIONS = {"sum": "sum", "min": "amin", "max": "amax", "none": "none"}


def _gather(x: Any, indices: Any, axis: int, zeros: bool) -> Any:
    size = x.shape[axis]
    flat = indices.reshape(-1).long()
    inside = flat.clamp(0, size - 1)
    found = torch.index_select(x, axis, inside if zeros else flat)
    if zeros:
        kept = (flat == inside).reshape([-1 if place == axis else 1 for place in range(x.dim())])
        found = torch.where(kept, found, torch.zeros((), dtype=x.dtype))
    return found.reshape([*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]])


def gather(
    t: Tensor,
    indices: Tensor,
    axis: int = 0,
    available_memory_proportion: float | None = None,
    zero_OOR: bool = False,  # noqa: N803 (popxl's own name)
) -> Tensor:
    """Elements of an axis by their indices. `zero_OOR`: those of indices that are out of range are 0."""
    return groupedgather(t, indices, axis, 1, available_memory_proportion, zero_OOR)


def tied_gather(
    t: Tensor,
    indices: Tensor,
    axis: int = 0,
    available_memory_proportion: float | None = None,
    zero_OOR: bool = False,  # noqa: N803
) -> Tensor:
    """As `gather`, from a tensor that is an operand of matrix products as well."""
    return groupedgather(t, indices, axis, 1, available_memory_proportion, zero_OOR)


def groupedgather(
    t: Tensor,
    indices: Tensor,
    axis: int = 0,
    group_size: int = 1,
    available_memory_proportion: float | None = None,
    zero_OOR: bool = False,  # noqa: N803
) -> Tensor:
    """As `gather`, for each of several groups, which the first axis of both tensors counts."""
    check_tensor_ipu_and_tile_set(t=t, indices=indices)
    if not indices.dtype.is_int:
        raise popart_exception(f"Gather: indices are whole numbers, and {indices} holds {indices.dtype.name}.")
    place = handle_negative_axis(t, axis)

    def run(x: Any, where: Any) -> Any:
        if group_size == 1:
            return _gather(x, where, place, zero_OOR)
        parts = [_gather(x[group], where[group], place - 1, zero_OOR) for group in range(group_size)]
        return torch.stack(parts)

    return make_one("Gather", run, [t, indices], rule=Rule(inputs=(1,)), attributes=memory(available_memory_proportion))


def scatter(
    t: Tensor, indices: Tensor, values: Tensor, axis: int = 0, available_memory_proportion: float | None = None
) -> Tensor:
    """A tensor in which elements of an axis are replaced, by indices of the shape of `values`."""
    check_tensor_ipu_and_tile_set(t=t, indices=indices, values=values)
    place = handle_negative_axis(t, axis)
    return make_one(
        "Scatter",
        lambda x, where, given: x.scatter(place, where.long(), given),
        [t, indices, values],
        rule=Rule(inputs=(1,)),
        attributes=memory(available_memory_proportion),
    )


def scatter_reduce(
    data: Tensor,
    indices: Tensor,
    reduction: ScatterReductionType,
    initial_values: Tensor | None = None,
    axis: int = 0,
    axis_size: int | None = None,
    enable_index_broadcast: bool = True,
    available_memory_proportion: float | None = None,
) -> Tensor:
    """Elements of `data` that have the same index are reduced to one."""
    return grouped_scatter_reduce(
        data,
        indices,
        reduction,
        initial_values,
        axis,
        axis_size,
        1,
        enable_index_broadcast,
        available_memory_proportion,
    )


def grouped_scatter_reduce(
    data: Tensor,
    indices: Tensor,
    reduction: ScatterReductionType,
    initial_values: Tensor | None = None,
    axis: int = 0,
    axis_size: int | None = None,
    group_size: int = 1,
    enable_index_broadcast: bool = True,
    available_memory_proportion: float | None = None,
) -> Tensor:
    """As `scatter_reduce`, for each of several groups, which the first axis counts."""
    if initial_values is None and axis_size is None:
        raise ValueError("How long the result is has to be known: give `axis_size`, or `initial_values`.")
    if reduction not in _REDUCTIONS:
        raise ValueError(f"`reduction` is one of {', '.join(_REDUCTIONS)}.")
    place = handle_negative_axis(data, axis)
    size = initial_values.shape[place] if axis_size is None and initial_values is not None else axis_size

    def run(x: Any, where: Any, start: Any = None) -> Any:
        first = 1 if group_size > 1 else 0
        if where.dim() < x.dim():
            shape = [1] * x.dim()
            for spot in range(first):
                shape[spot] = where.shape[spot]
            shape[place] = where.shape[first]
            where = where.reshape(shape)
        target = [*x.shape[:place], size, *x.shape[place + 1 :]]
        base = torch.zeros(target, dtype=x.dtype) if start is None else start
        spread = where.long().expand(x.shape)
        if reduction == "none":
            return base.scatter(place, spread, x)
        return base.scatter_reduce(place, spread, x, _REDUCTIONS[reduction], include_self=start is not None)

    inputs = [data, indices] if initial_values is None else [data, indices, initial_values]
    check_tensor_ipu_and_tile_set(**{f"input_{place}": t for place, t in enumerate(inputs)})
    rule = Rule(inputs=(1,)) if reduction in ("sum", "none") else Rule()
    return make_one("ScatterReduce", run, inputs, rule=rule, attributes=memory(available_memory_proportion))


def onehot(t: Tensor, num_classes: Tensor, values: Tensor, axis: int) -> Tensor:
    """The second of `values` at the class that each element names, the first at all others."""
    if not isinstance(num_classes, Constant):
        raise popart_exception("OneHot: the number of classes has to be a constant: it decides the result's shape.")
    check_tensor_ipu_and_tile_set(t=t, num_classes=num_classes, values=values)
    count = int(num_classes._data.reshape(-1)[0])
    place = axis if axis >= 0 else t.rank + 1 + axis

    def run(x: Any, pair: Any) -> Any:
        shape = [-1 if spot == place else 1 for spot in range(x.dim() + 1)]
        hit = x.unsqueeze(place) == torch.arange(count, dtype=x.dtype).reshape(shape)
        return torch.where(hit, pair[1], pair[0])

    return make_one("OneHot", run, [t, values], rule=Rule(inputs=(0,)), dtypes=[values.dtype])


def _find_places(x: Any, index: Any, axes: Sequence[int], sizes: Sequence[int]) -> list[Any]:
    starts = index.reshape(-1).long()
    return [torch.arange(size) + starts[place] for place, size in enumerate(sizes[: len(axes)])]


def dynamic_slice(t: Tensor, index: Tensor, axes: list[int], sizes: list[int], no_overlap: bool) -> Tensor:
    """A part of the given sizes, which starts where `index` says for each axis."""
    check_tensor_ipu_and_tile_set(t=t, index=index)
    places = [handle_negative_axis(t, axis) for axis in axes]

    def run(x: Any, where: Any) -> Any:
        for axis, taken in zip(places, _find_places(x, where, places, sizes), strict=True):
            x = torch.index_select(x, axis, taken)
        return x

    return make_one("DynamicSlice", run, [t, index], rule=Rule(inputs=(1,)))


def _update(axes: Iterable[int], sizes: Iterable[int], t: Tensor) -> Any:
    places, lengths = [handle_negative_axis(t, axis) for axis in axes], list(sizes)

    def run(x: Any, where: Any, part: Any) -> Any:
        taken = _find_places(x, where, places, lengths)
        if len(places) == 1:
            return x.index_copy(places[0], taken[0], part)
        full = [taken[places.index(axis)] if axis in places else torch.arange(x.shape[axis]) for axis in range(x.dim())]
        shaped = [
            entry.reshape([-1 if spot == axis else 1 for spot in range(x.dim())]) for axis, entry in enumerate(full)
        ]
        return x.index_put(shaped, part)

    return run


def dynamic_update(
    t: Tensor, index: Tensor, t_update: Tensor, axes: Iterable[int], sizes: Iterable[int], no_overlap: bool
) -> Tensor:
    """A tensor in which the part that starts at `index` is replaced."""
    check_tensor_ipu_and_tile_set(t=t, index=index, t_update=t_update)
    return make_one("DynamicUpdate", _update(axes, sizes, t), [t, index, t_update], rule=Rule(inputs=(1,)))


def dynamic_update_(
    t: Tensor, index: Tensor, t_update: Tensor, axes: Iterable[int], sizes: Iterable[int], no_overlap: bool
) -> Tensor:
    """As `dynamic_update`, in place."""
    check_tensor_ipu_and_tile_set(t=t, index=index, t_update=t_update)
    return make_in_place("DynamicUpdate", _update(axes, sizes, t), [t, index, t_update], rule=Rule(inputs=(1,)))
