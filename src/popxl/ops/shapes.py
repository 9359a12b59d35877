"""Ops that move elements, or show them in another shape. Those with a `_` show the same memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from popxl._ir.operation import SHAPES, make_op
from popxl.ops.utils import check_tensor_ipu_and_tile_set, handle_negative_axis, make_one
from popxl.tensor import Tensor

Bounds = int | Sequence[int | None] | None
INT_MIN, INT_MAX = -(2**31), 2**31 - 1
_VIEW = {0: 0}
_range, _slice, _sum = range, slice, sum


def _find_shape(t: Tensor, shape: Iterable[int]) -> tuple[int, ...]:
    sizes = tuple(int(size) for size in shape)
    if any(size < -1 or size == 0 for size in sizes) and not (t.nelms == 0 and 0 in sizes):
        raise ValueError(f"Sizes of a reshape are positive, but for one that may be -1: {sizes}.")
    if sizes.count(-1) > 1:
        raise ValueError(f"A reshape works out at most one '-1', and there are more in {sizes}.")
    if -1 in sizes:
        rest = -math.prod(sizes)
        sizes = tuple(t.nelms // rest if size == -1 else size for size in sizes)
    return sizes


def reshape(t: Tensor, shape: Iterable[int]) -> Tensor:
    """The same elements in another shape; one size may be -1."""
    sizes = _find_shape(t, shape)
    return make_one("Reshape", lambda x: x.reshape(sizes), [t], rule=SHAPES, attributes={"shows": True})


def reshape_(t: Tensor, shape: Iterable[int]) -> Tensor:
    """The same memory in another shape."""
    sizes = _find_shape(t, shape)
    return make_one("Reshape", lambda x: x.view(sizes), [t], rule=SHAPES, aliases=_VIEW)


def flatten(t: Tensor) -> Tensor:
    """All elements on one dimension."""
    return reshape(t, (-1,))


def flatten_(t: Tensor) -> Tensor:
    """The same memory on one dimension."""
    return reshape_(t, (-1,))


def squeeze(t: Tensor, axes: Iterable[int] | None = None) -> Tensor:
    """Without dimensions of size 1: all of them, or those named."""
    if axes is None:
        return reshape(t, [size for size in t.shape if size != 1])
    places = sorted(handle_negative_axis(t, entry) for entry in axes)
    if len(places) > len(set(places)):
        raise ValueError("Axes contains duplicates")
    for place in places:
        if place >= t.rank:
            raise ValueError(f"There is no axis {place} to squeeze: the tensor has {t.rank}.")
        if t.shape[place] != 1:
            raise ValueError(
                f"Axis {place} has {t.shape[place]} elements: only one of a single element can be squeezed."
            )
    return reshape(t, [size for place, size in enumerate(t.shape) if place not in places])


def _find_order(t: Tensor, permutation: Iterable[int] | None) -> list[int]:
    order = list(reversed(_range(t.rank))) if permutation is None else list(permutation)
    outside = tuple(place for place in order if place >= t.rank)
    if outside:
        raise ValueError(f"A permutation of {t.rank} axes names 0 to {t.rank - 1}, and not {outside}.")
    return [handle_negative_axis(t, place) for place in order]


def transpose(t: Tensor, permutation: Iterable[int] | None = None) -> Tensor:
    """Dimensions in another order; reversed if none is given."""
    order = _find_order(t, permutation)
    return make_one("Transpose", lambda x: x.permute(order), [t], rule=SHAPES, attributes={"shows": True})


def transpose_(t: Tensor, permutation: Iterable[int] | None = None) -> Tensor:
    """The same memory with its dimensions in another order."""
    order = _find_order(t, permutation)
    return make_one("Transpose", lambda x: x.permute(order), [t], rule=SHAPES, aliases=_VIEW)


def _list(value: Any) -> list[Any] | None:
    return None if value is None else [value] if isinstance(value, int) else list(value)


def _find_cuts(t: Tensor, start: Bounds, stop: Bounds, step: Bounds, axis: Bounds) -> list[tuple[int, range]]:
    """Axes, and which of their elements are taken."""
    given = {"start": _list(start), "stop": _list(stop), "step": _list(step), "axis": _list(axis)}
    count = -1
    for name, values in given.items():
        if values is not None and count not in (-1, len(values)):
            raise ValueError(f"`{name}` has {len(values)} entries where the others have {count}.")
        count = len(values) if values is not None else count
    filled: dict[str, list[Any]] = {
        name: values if values is not None else [None] * count for name, values in given.items()
    }
    cuts = []
    for place in _range(count):
        where = place if filled["axis"][place] is None else filled["axis"][place]
        size = t.shape[handle_negative_axis(t, where)]
        low, high, hop = filled["start"][place], filled["stop"][place], filled["step"][place]
        high = None if high in (INT_MIN, INT_MAX) else high
        cuts.append((handle_negative_axis(t, where), _range(*_slice(low, high, hop).indices(size))))
    return cuts


def _cut(x: Any, cuts: list[tuple[int, range]]) -> Any:
    for place, taken in cuts:
        if not taken:
            x = x.narrow(place, 0, 0)
            continue
        low, high, hop = min(taken[0], taken[-1]), max(taken[0], taken[-1]), abs(taken.step)
        x = torch.ops.aten.slice(x, place, low, high + 1, hop)
        x = x.flip(place) if taken.step < 0 else x
    return x


def slice(t: Tensor, start: Bounds = None, stop: Bounds = None, step: Bounds = None, axis: Bounds = None) -> Tensor:
    """A part of a tensor, with numpy's bounds for each axis."""
    if start is None and stop is None and step is None:
        return t
    cuts = _find_cuts(t, start, stop, step, axis)
    return make_one("Slice", lambda x: _cut(x, cuts), [t], rule=SHAPES, attributes={"shows": True})


def slice_(t: Tensor, start: Bounds = None, stop: Bounds = None, step: Bounds = None, axis: Bounds = None) -> Tensor:
    """A part of the same memory."""
    if start is None and stop is None and step is None:
        return t
    cuts = _find_cuts(t, start, stop, step, axis)
    return make_one("Slice", lambda x: _cut(x, cuts), [t], rule=SHAPES, aliases=_VIEW)


def subsample(t: Tensor, strides: int | Iterable[int]) -> Tensor:
    """Every n-th element of each dimension."""
    hops = [strides] if isinstance(strides, int) else list(strides)
    if len(hops) > t.rank:
        raise ValueError("`strides` has more entries than the tensor has axes.")
    cuts = [(place, _range(0, t.shape[place], hop)) for place, hop in enumerate(hops) if hop != 1]
    return make_one("Subsample", lambda x: _cut(x, cuts), [t], rule=SHAPES, attributes={"shows": True})


def split(t: Tensor, splits: int | list[int], axis: int = 0) -> list[Tensor]:
    """Parts of an axis: as many equal ones, or of these sizes."""
    place = handle_negative_axis(t, axis)
    if isinstance(splits, int):
        if t.shape[place] % splits:
            raise ValueError(f"{splits} does not equally divide axis {place}, which has {t.shape[place]} elements.")
        splits = [t.shape[place] // splits] * splits
    sizes = list(splits)
    return make_op("Split", lambda x: torch.split(x, sizes, place), [t], rule=SHAPES, attributes={"shows": True})


def concat(ts: Iterable[Tensor], axis: int = 0) -> Tensor:
    """Tensors joined along an axis."""
    return _join(list(ts), axis)


def concat_(ts: Iterable[Tensor], axis: int = 0) -> Tensor:
    """As `concat`. The parts keep their own memory: what is written to the whole is not seen in them."""
    return _join(list(ts), axis)


def _join(parts: list[Tensor], axis: int) -> Tensor:
    kinds = [t.dtype for t in parts]
    if len(set(kinds)) > 1:
        raise TypeError(f"All inputs to a concat operation must have the same type: {kinds}. `ops.cast` converts them.")
    check_tensor_ipu_and_tile_set(**{f"part {place}": part for place, part in enumerate(parts)})
    return make_one("Concat", lambda *values: torch.cat(values, axis), parts, rule=SHAPES)


def identity(t: Tensor, output_name: str | None = None) -> Tensor:
    """The same values, under another name."""
    name = output_name or f"identity_{t.name}"
    return make_one("Identity", lambda x: x.view_as(x), [t], rule=SHAPES, name=name, attributes={"shows": True})


rename = identity


def detach(t: Tensor) -> Tensor:
    """The same values, through which no gradient flows."""
    return make_one("Detach", lambda x: x.view_as(x), [t], attributes={"shows": True})


def detach_(t: Tensor) -> Tensor:
    """The same memory, through which no gradient flows."""
    return make_one("Detach", lambda x: x.view_as(x), [t], aliases=_VIEW)
