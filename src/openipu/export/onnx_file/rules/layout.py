"""Ops that arrange elements: views, joins, cuts, lookups, constants.

In: sites. Out: ONNX's ops. All shapes are known, so views are what their results look like.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from openipu.errors import ExportError
from openipu.export.onnx_file.site import Rule, Rules, Site, broadcast
from openipu.export.onnx_file.writer import Value


def _view(site: Site) -> Value:
    return site.reshape(site.source, site.shape)


def _permute(site: Site) -> Value:
    rank = site.source.rank
    return site.transpose(site.source, [axis % rank for axis in site.dims])


def _swap(site: Site) -> Value:
    return _swap_axes(site, site.dim0, site.dim1)


def _t(site: Site) -> Value:
    return site.source if site.source.rank < 2 else _swap_axes(site, 0, 1)


def _swap_axes(site: Site, first: int, second: int) -> Value:
    rank = site.source.rank
    if rank == 0:
        return site.source
    order = list(range(rank))
    order[first % rank], order[second % rank] = order[second % rank], order[first % rank]
    return site.transpose(site.source, order)


def _expand(site: Site) -> Value:
    return site.expand(site.source, site.shape)


def _slice(site: Site) -> Value:
    axis = site.dim % site.source.rank
    size = site.source.shape[axis]
    start, stop, step = slice(site.start, site.end, site.step).indices(size)
    return site.slice(site.source, axis, start, max(start, stop), step)


def _select(site: Site) -> Value:
    axis = site.dim % site.source.rank
    index = site.index % site.source.shape[axis]
    return site.emit("Gather", site.source, site.number(index, torch.int64), axis=axis)


def _narrow(site: Site) -> Value:
    return site.slice(site.source, site.dim, site.start, site.start + site.length)


def _cut(site: Site, sizes: Sequence[int]) -> tuple[Value, ...]:
    axis, start, parts = site.dim % site.source.rank, 0, []
    for size in sizes:
        parts.append(site.slice(site.source, axis, start, start + size))
        start += size
    return tuple(parts)


def _split(site: Site) -> tuple[Value, ...]:
    axis = site.dim % site.source.rank
    return _cut(site, [result.shape[axis] for result in site.results])


def _unbind(site: Site) -> tuple[Value, ...]:
    axis = site.dim % site.source.rank
    return tuple(
        site.make("Gather", [site.source, site.number(index, torch.int64)], result.shape, site.dtype, axis=axis)
        for index, result in enumerate(site.results)
    )


def _cat(site: Site) -> Value:
    parts = [site.cast(value, site.dtype) for value in site.tensors if value.shape != (0,) or len(site.shape) == 1]
    return parts[0] if len(parts) == 1 else site.emit("Concat", *parts, axis=site.dim % len(site.shape))


def _stack(site: Site) -> Value:
    axis = site.dim % len(site.shape)
    parts = [
        site.reshape(site.cast(value, site.dtype), [*value.shape[:axis], 1, *value.shape[axis:]])
        for value in site.tensors
    ]
    return site.emit("Concat", *parts, axis=axis)


def _pad(site: Site) -> Value:
    rank, pairs = site.source.rank, list(site.pad)
    before, after = [0] * rank, [0] * rank
    for index in range(len(pairs) // 2):
        before[rank - 1 - index], after[rank - 1 - index] = pairs[2 * index], pairs[2 * index + 1]
    fill = site.number(site.arguments.get("value") or 0, site.dtype)
    return site.emit("Pad", site.source, site.whole([*before, *after]), fill, mode="constant")


def _flip(site: Site) -> Value:
    rank = site.source.rank
    axes = [axis % rank for axis in site.dims]
    words = [site.whole(numbers) for numbers in ([-1] * len(axes), [-(2**62)] * len(axes), axes, [-1] * len(axes))]
    return site.emit("Slice", site.source, *words)


def _repeat(site: Site) -> Value:
    missing = len(site.repeats) - site.source.rank
    source = site.reshape(site.source, [1] * missing + list(site.source.shape))
    return site.emit("Tile", source, site.whole(site.repeats))


def _embedding(site: Site) -> Value:
    return site.emit("Gather", site.weight, site.indices, axis=0)


def _index_select(site: Site) -> Value:
    return site.emit("Gather", site.source, site.index, axis=site.dim % max(1, site.source.rank))


def _gather(site: Site) -> Value:
    """A lookup in the flat tensor: where each element's row begins is known."""
    source, index = site.source, site.cast(site.index, torch.int64)
    if not source.rank:
        return source
    axis = site.dim % source.rank
    strides = [math.prod(source.shape[place + 1 :]) for place in range(source.rank)]
    begins = torch.zeros([1] * source.rank, dtype=torch.int64)
    for place, size in enumerate(index.shape):
        if place != axis:
            shape = [1] * source.rank
            shape[place] = size
            begins = begins + (torch.arange(size) * strides[place]).reshape(shape)
    steps = index if strides[axis] == 1 else site.like("Mul", index, site.number(strides[axis], torch.int64))
    places = site.like("Add", steps, site.writer.constant(begins)) if bool(begins.any()) else steps
    return site.emit("Gather", site.reshape(source, [math.prod(source.shape)]), places, axis=0)


def _scatter(reduction: str | None) -> Rule:
    def rule(site: Site) -> Value:
        given = site.arguments.get("src", site.arguments.get("value"))
        source = given if isinstance(given, Value) else site.expand(site.number(given, site.dtype), site.index.shape)
        if source.shape != site.index.shape:
            for axis, size in enumerate(site.index.shape):
                source = site.slice(source, axis, 0, size)
        axis = site.dim % max(1, site.source.rank)
        return site.emit("ScatterElements", site.source, site.index, source, axis=axis, reduction=reduction)

    return rule


def _index(site: Site) -> Value:
    """x[i, j, :, …] with tensors of indices."""
    source = site.source
    axes, places = _read_indices(site, site.indices)
    order = [*axes, *(axis for axis in range(source.rank) if axis not in axes)]
    front = site.transpose(source, order)
    found = site.make("GatherND", [front, places], [*places.shape[:-1], *front.shape[len(axes) :]], source.dtype)
    if axes == list(range(axes[0], axes[0] + len(axes))) and axes[0] > 0:  # neighbours: results stand in their place
        many = places.rank - 1
        order = [*range(many, many + axes[0]), *range(many), *range(many + axes[0], found.rank)]
        found = site.transpose(found, order)
    return found


def _read_indices(site: Site, indices: Sequence[Value | None]) -> tuple[list[int], Value]:
    """Which axes are indexed, and the places as the rows of one tensor."""
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    given = [index for index in indices if index is not None]
    if any(index.dtype in (torch.bool, torch.uint8) for index in given):
        raise ExportError("indices that are a mask have no counterpart in ONNX with known shapes")
    shape = broadcast(index.shape for index in given)
    columns = []
    for axis, index in zip(axes, given, strict=True):
        size = site.source.shape[axis]
        whole = site.cast(index, torch.int64)
        below = site.make("Less", [whole, site.number(0, torch.int64)], whole.shape, torch.bool)
        wrapped = site.like("Add", whole, site.number(size, torch.int64))
        positive = site.make("Where", [below, wrapped, whole], whole.shape, torch.int64)
        columns.append(site.reshape(site.expand(positive, shape), [*shape, 1]))
    if len(columns) == 1:
        return axes, columns[0]
    return axes, site.make("Concat", columns, [*shape, len(columns)], torch.int64, axis=-1)


def _index_put(site: Site) -> Value:
    axes, places = _read_indices(site, site.indices)
    if axes != list(range(len(axes))):
        order = [*axes, *(axis for axis in range(site.source.rank) if axis not in axes)]
    else:
        order = list(range(site.source.rank))
    front = site.transpose(site.source, order)
    wanted = [*places.shape[:-1], *front.shape[len(axes) :]]
    values = site.expand(site.cast(site.values, site.dtype), wanted)
    reduction = "add" if site.accumulate else None
    done = site.make("ScatterND", [front, places, values], front.shape, site.dtype, reduction=reduction)
    return site.transpose(done, [order.index(axis) for axis in range(len(order))])


def _index_add(site: Site) -> Value:
    axis, source = site.dim % max(1, site.source.rank), site.arguments["source"]
    index = site.cast(site.index, torch.int64)
    shape = [1] * source.rank
    shape[axis] = index.shape[0] if index.rank else 1
    places = site.expand(site.reshape(index, shape), source.shape)
    alpha = site.arguments.get("alpha", 1)
    if alpha != 1:
        source = site.like("Mul", source, site.number(alpha, site.dtype))
    return site.emit("ScatterElements", site.source, places, source, axis=axis, reduction="add")


def _slice_scatter(site: Site) -> Value:
    axis = site.dim % site.source.rank
    size = site.source.shape[axis]
    start, stop, step = slice(site.start, site.end, site.step).indices(size)
    return _put_range(site, axis, range(start, max(start, stop), step), site.src)


def _select_scatter(site: Site) -> Value:
    axis = site.dim % site.source.rank
    index = site.index % site.source.shape[axis]
    part = site.reshape(site.src, [*site.shape[:axis], 1, *site.shape[axis + 1 :]])
    return _put_range(site, axis, range(index, index + 1), part)


def _put_range(site: Site, axis: int, places: range, part: Value) -> Value:
    """The source with a part of one axis replaced."""
    part = site.cast(part, site.dtype)
    size = site.source.shape[axis]
    if len(places) == size:
        return part
    if places.step == 1:
        pieces = [
            site.slice(site.source, axis, 0, places.start),
            part,
            site.slice(site.source, axis, places.stop, size),
        ]
        return site.emit("Concat", *(piece for piece in pieces if piece.shape[axis]), axis=axis)
    shape = [1] * site.source.rank
    shape[axis] = len(places)
    indices = site.expand(site.reshape(site.whole(list(places)), shape), part.shape)
    return site.emit("ScatterElements", site.source, indices, part, axis=axis)


def _full(value: Any) -> Rule:
    return lambda site: site.fill(value)


def _full_given(name: str) -> Rule:
    def rule(site: Site) -> Value:
        value = site.arguments[name]
        return site.expand(site.cast(value, site.dtype), site.shape) if isinstance(value, Value) else site.fill(value)

    return rule


def _arange(site: Site) -> Value:
    start, step = site.arguments.get("start", 0), site.arguments.get("step", 1)
    count = site.shape[0]
    return site.writer.constant(torch.tensor([start + index * step for index in range(count)], dtype=site.dtype))


def _scalar_tensor(site: Site) -> Value:
    return site.number(site.s, site.dtype)


def _triangle(upper: int) -> Rule:
    def rule(site: Site) -> Value:
        return site.emit("Trilu", site.source, site.number(site.diagonal, torch.int64), upper=upper)

    return rule


def _as_strided(site: Site) -> Value:
    """A view by strides is a lookup in the flat tensor: all places are known."""
    offset = site.arguments.get("storage_offset") or 0
    places = torch.tensor(offset)
    for size, stride in zip(site.size, site.stride, strict=True):
        places = places.unsqueeze(-1) + torch.arange(size) * stride
    flat = site.reshape(site.source, [math.prod(site.source.shape)])
    return site.emit("Gather", flat, site.writer.constant(places), axis=0)


RULES: Rules = {
    **{
        f"aten.{name}": _view
        for name in ("view.default", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "flatten", "_reshape_alias")
    },
    "aten.permute": _permute,
    "aten.transpose.int": _swap,
    "aten.t": _t,
    "aten.expand": _expand,
    "aten.slice.Tensor": _slice,
    "aten.select.int": _select,
    "aten.narrow": _narrow,
    "aten.split": _split,
    "aten.split_with_sizes": _split,
    "aten.chunk": _split,
    "aten.unbind.int": _unbind,
    "aten.cat": _cat,
    "aten.stack": _stack,
    "aten.constant_pad_nd": _pad,
    "aten.flip": _flip,
    "aten.repeat": _repeat,
    "aten.embedding": _embedding,
    "aten.index_select": _index_select,
    "aten.gather": _gather,
    "aten.scatter.src": _scatter(None),
    "aten.scatter.value": _scatter(None),
    "aten.scatter_add": _scatter("add"),
    "aten.index.Tensor": _index,
    "aten._unsafe_index.Tensor": _index,
    "aten.index_put": _index_put,
    "aten._unsafe_index_put": _index_put,
    "aten.index_add": _index_add,
    "aten.slice_scatter": _slice_scatter,
    "aten.select_scatter": _select_scatter,
    **{f"aten.{name}": _full(0) for name in ("zeros", "zeros_like", "new_zeros", "empty", "empty_like", "new_empty")},
    **{f"aten.{name}": _full(1) for name in ("ones", "ones_like", "new_ones")},
    **{f"aten.{name}": _full_given("fill_value") for name in ("full", "full_like", "new_full")},
    "aten.fill.Scalar": _full_given("value"),
    "aten.fill.Tensor": _full_given("value"),
    "aten.empty_strided": _full(0),
    "aten.new_empty_strided": _full(0),
    "aten.arange": _arange,
    "aten.scalar_tensor": _scalar_tensor,
    "aten.tril": _triangle(0),
    "aten.triu": _triangle(1),
    "aten.as_strided": _as_strided,
}
