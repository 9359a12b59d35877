"""Results of common ops on tensors that lie in any order, such as channel beside channel, without asking PyTorch.

In: an op that is being recorded, which `plain_results` has no answer to. Out: what the op returns on a CPU, with its
order in memory; None wherever that is not obvious, so that PyTorch decides. Graphs of other frameworks have their
images channel beside channel, and views of them in every order; a result in the wrong one costs a copy where it is
viewed otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

aten = torch.ops.aten

_META = torch.device("meta")


def make_turned_result(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """New meta tensors, or None."""
    if func is aten.arange.default:
        return _count_up(args, kwargs)
    rule = _RULES.get(func)
    if rule is _reduce and kwargs.get("dtype") in (None, args[0].dtype):
        kwargs = {name: value for name, value in kwargs.items() if name != "dtype"}
    return None if rule is None or kwargs else rule(*args)


def _make(shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(tuple(shape), tuple(strides), dtype=dtype, device=_META)


def _list_tensors(values: Sequence[Any]) -> list[torch.Tensor]:
    return [value for value in values if isinstance(value, torch.Tensor)]


def find_common_shape(operands: Sequence[torch.Tensor]) -> tuple[int, ...] | None:
    """The shape that operands have together; None where they do not go together, or hold nothing."""
    rank = max(operand.dim() for operand in operands)
    shapes = [(1,) * (rank - operand.dim()) + tuple(operand.shape) for operand in operands]
    common = tuple(max(sizes) for sizes in zip(*shapes, strict=True))
    fits = all(size in (1, whole) for shape in shapes for size, whole in zip(shape, common, strict=True))
    return common if fits and all(min(shape, default=1) > 0 for shape in shapes) else None


def find_strides(shape: Sequence[int], operands: Sequence[torch.Tensor]) -> tuple[int, ...]:
    """How a result lies that has one element for each of the operands: in the order of the first one that has an
    opinion of two dimensions, and without gaps. PyTorch's loops over elements choose it so."""
    rank = len(shape)
    known = []
    for operand in operands:
        missing = rank - operand.dim()
        sizes, strides = (1,) * missing + tuple(operand.shape), (0,) * missing + tuple(operand.stride())
        known.append([0 if size == 1 and shape[n] != 1 else strides[n] for n, size in enumerate(sizes)])

    def compare(one: int, other: int) -> int:
        for strides in known:
            if strides[one] and strides[other]:
                if strides[one] != strides[other]:
                    return 1 if strides[one] > strides[other] else -1
                if shape[one] > shape[other]:
                    return 1
        return 0

    order = list(reversed(range(rank)))  # the quickest dimension first
    for place in range(1, rank):
        current = place
        for before in reversed(range(place)):
            found = compare(order[before], order[current])
            if found > 0:
                order[before], order[current] = order[current], order[before]
                current = before
            elif found < 0:
                break
    made, step = [0] * rank, 1
    for dimension in order:
        made[dimension] = step
        step *= shape[dimension]
    return tuple(made)


def _spread(operands: Sequence[torch.Tensor], dtype: torch.dtype) -> torch.Tensor | None:
    shape = find_common_shape(operands)
    return None if shape is None else _make(shape, find_strides(shape, operands), dtype)


def _combine(*values: Any) -> torch.Tensor | None:
    """Arithmetic on tensors of one floating format, beside numbers."""
    tensors, dtype = _list_tensors(values), values[0].dtype if isinstance(values[0], torch.Tensor) else None
    numbers = [value for value in values if not isinstance(value, torch.Tensor)]
    if dtype is None or not dtype.is_floating_point or any(type(number) not in (int, float) for number in numbers):
        return None
    return _spread(tensors, dtype) if all(tensor.dtype is dtype for tensor in tensors) else None


def _add(*values: Any) -> torch.Tensor | None:
    """Also of whole numbers, which stay what they are."""
    tensors = _list_tensors(values)
    whole = tensors[0].dtype in (torch.int32, torch.int64)
    if whole and len(tensors) == len(values) and all(tensor.dtype is tensors[0].dtype for tensor in tensors):
        return _spread(tensors, tensors[0].dtype)
    return _combine(*values)


def _compare(first: Any, second: Any) -> torch.Tensor | None:
    tensors = _list_tensors((first, second))
    same = len(tensors) == 2 and first.dtype is second.dtype
    return _spread(tensors, torch.bool) if same or type(second) in (int, float) else None


def _choose(condition: Any, first: Any, second: Any) -> torch.Tensor | None:
    usual = condition.dtype is torch.bool and first.dtype is second.dtype
    return _spread((condition, first, second), first.dtype) if usual else None


def _pass_back(gradient: Any, value: Any, *rest: Any) -> torch.Tensor | None:
    return _combine(value, gradient) if gradient.shape == value.shape else None


def _reduce(tensor: Any, dimensions: Sequence[int] | None, keep: bool = False) -> torch.Tensor | None:
    """Sums of tensors row behind row; or those of which at most one dimension is left, which has no order."""
    if not tensor.dtype.is_floating_point or not tensor.numel() or not dimensions:
        return None
    if any(not -tensor.dim() <= number < tensor.dim() for number in dimensions):
        return None
    reduced = {number % tensor.dim() for number in dimensions}
    left = [size for number, size in enumerate(tensor.shape) if number not in reduced]
    if len(reduced) != len(dimensions) or (len(left) > 1 and not tensor.is_contiguous()):
        return None
    sizes = [1 if number in reduced else size for number, size in enumerate(tensor.shape)]
    return torch.empty(sizes if keep else left, dtype=tensor.dtype, device=_META)


def _are_turned(*images: Any) -> bool:
    """Channel beside channel, without gaps."""
    return all(
        tensor.dim() == 4
        and tensor.dtype is images[0].dtype
        and tensor.dtype.is_floating_point
        and min(tensor.shape) > 0
        and tensor.is_contiguous(memory_format=torch.channels_last)
        for tensor in images
    )


def _turn(shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(tuple(shape), dtype=dtype, device=_META, memory_format=torch.channels_last)


def _convolve(
    images: Any,
    weight: Any,
    bias: Any,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    transposed: bool,
    output_pads: Sequence[int],
    groups: int,
) -> torch.Tensor | None:
    fits = weight.dim() == 4 and weight.dtype is images.dtype and len(strides) == len(pads) == len(dilations) == 2
    if (
        not fits
        or not _are_turned(images)
        or images.shape[1] != weight.shape[0 if transposed else 1] * (1 if transposed else groups)
    ):
        return None
    results = weight.shape[1] * groups if transposed else weight.shape[0]
    if bias is not None and tuple(bias.shape) != (results,):
        return None
    sizes = []
    for n in range(2):
        reach = dilations[n] * (weight.shape[2 + n] - 1)
        if transposed:
            size = (images.shape[2 + n] - 1) * strides[n] - 2 * pads[n] + reach + output_pads[n] + 1
        else:
            room = images.shape[2 + n] + 2 * pads[n] - reach - 1
            size = room // strides[n] + 1 if room >= 0 else 0
        sizes.append(size)
    if min(sizes) < 1 or results % groups:
        return None
    return _turn((images.shape[0], results, *sizes), images.dtype)


def _convolve_back(gradient: Any, images: Any, weight: Any, bias_sizes: Any, *rest: Any) -> Any:
    """The gradient of the weight alone, as graphs with gradients of their own ask for it."""
    if list(rest[-1]) != [False, True, False] or not _are_turned(gradient, images) or weight.dim() != 4:
        return None
    return None, _turn(weight.shape, images.dtype), None


def _pool(
    images: Any,
    window: Sequence[int],
    strides: Sequence[int] = (),
    pads: Sequence[int] = (0, 0),
    dilations: Sequence[int] = (1, 1),
    rounds_up: bool = False,
) -> tuple[torch.Tensor, torch.Tensor] | None:
    if rounds_up or not _are_turned(images) or any(len(given) != 2 for given in (window, strides, pads, dilations)):
        return None
    room = [images.shape[2 + n] + 2 * pads[n] - dilations[n] * (window[n] - 1) - 1 for n in range(2)]
    if min(room) < 0 or any(2 * pad > size for pad, size in zip(pads, window, strict=True)):
        return None
    shape = (*images.shape[:2], *(size // step + 1 for size, step in zip(room, strides, strict=True)))
    return _turn(shape, images.dtype), _turn(shape, torch.int64)


def _pool_back(gradient: Any, images: Any, *rest: Any) -> torch.Tensor | None:
    return _turn(images.shape, images.dtype) if _are_turned(images) and gradient.dtype is images.dtype else None


def _normalise_batch(images: Any, *rest: Any) -> tuple[torch.Tensor, ...] | None:
    if not _are_turned(images) or images.dtype is not torch.float32:
        return None
    return _turn(images.shape, images.dtype), *(torch.empty(images.shape[1], device=_META) for _ in range(2))


def _normalise_batch_back(gradient: Any, images: Any, weight: Any, *rest: Any) -> tuple[torch.Tensor, ...] | None:
    usual = list(rest[-1]) == [True, True, True] and weight is not None and gradient.shape == images.shape
    return _normalise_batch(images) if usual and _are_turned(gradient, images) else None


def _normalise_rows(x: Any, shape: Sequence[int], weight: Any, bias: Any, *rest: Any) -> Any:
    if not x.is_contiguous() or x.dtype is not torch.float32 or not x.numel() or list(shape) != [x.shape[-1]]:
        return None
    if any(value is None or tuple(value.shape) != tuple(shape) for value in (weight, bias)):
        return None
    rows = (*x.shape[:-1], 1)
    return tuple(torch.empty(size, device=_META) for size in (x.shape, rows, rows))


def _normalise_rows_back(gradient: Any, x: Any, shape: Sequence[int], mean: Any, inverse: Any, *rest: Any) -> Any:
    weight, bias, wanted = rest
    if gradient.shape != x.shape or not gradient.is_contiguous() or list(wanted) != [True, True, True]:
        return None
    if _normalise_rows(x, shape, weight, bias) is None:
        return None
    return tuple(torch.empty(size, device=_META) for size in (x.shape, weight.shape, weight.shape))


def _multiply_batches(first: Any, second: Any) -> torch.Tensor | None:
    """Matrices may lie in any order: the result does not."""
    same = first.dtype is second.dtype and first.dtype.is_floating_point and first.numel() and second.numel()
    if not same or first.dim() != 3 or second.dim() != 3:
        return None
    fits = first.shape[0] == second.shape[0] and first.shape[2] == second.shape[1]
    shape = (first.shape[0], first.shape[1], second.shape[2])
    return torch.empty(shape, dtype=first.dtype, device=_META) if fits else None


def _look_up(table: Any, rows: Any, *rest: Any) -> torch.Tensor | None:
    usual = table.dim() == 2 and rows.dtype in (torch.int32, torch.int64)
    return torch.empty((*rows.shape, table.shape[1]), dtype=table.dtype, device=_META) if usual else None


def _add_rows(tensor: Any, dimension: int, rows: Any, source: Any) -> torch.Tensor | None:
    usual = dimension == 0 and rows.dim() == 1 and tensor.dim() == source.dim() and tensor.dtype is source.dtype
    usual = (
        usual and source.shape[0] == rows.shape[0] and source.shape[1:] == tensor.shape[1:] and tensor.is_contiguous()
    )
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=_META) if usual else None


def _join(tensors: Sequence[Any], dimension: int = 0) -> torch.Tensor | None:
    """Vectors."""
    usual = all(tensor.dim() == 1 and tensor.dtype is tensors[0].dtype and tensor.numel() for tensor in tensors)
    if not usual or dimension not in (0, -1):
        return None
    return torch.empty(sum(tensor.numel() for tensor in tensors), dtype=tensors[0].dtype, device=_META)


def _count_up(args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
    """`arange` of so many whole numbers."""
    usual = len(args) == 1 and type(args[0]) is int and args[0] > 0 and kwargs.get("device") == _META
    usual = usual and kwargs.get("layout") in (None, torch.strided) and not kwargs.get("pin_memory")
    return torch.empty(args[0], dtype=kwargs.get("dtype") or torch.int64, device=_META) if usual else None


_RULES: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys((aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor), _add),
    **dict.fromkeys((aten.div.Tensor, aten.pow.Tensor_Tensor, aten.maximum.default, aten.minimum.default), _combine),
    **dict.fromkeys((aten.relu.default, aten.exp.default, aten.log.default, aten.sqrt.default), _combine),
    **dict.fromkeys((aten.rsqrt.default, aten.neg.default, aten.tanh.default, aten.sigmoid.default), _combine),
    **dict.fromkeys((aten.reciprocal.default, aten.abs.default, aten.pow.Tensor_Scalar), _combine),
    **dict.fromkeys((aten.eq.Tensor, aten.ne.Tensor, aten.ge.Tensor, aten.gt.Tensor), _compare),
    **dict.fromkeys((aten.le.Tensor, aten.lt.Tensor, aten.eq.Scalar, aten.ne.Scalar), _compare),
    **dict.fromkeys((aten.ge.Scalar, aten.gt.Scalar, aten.le.Scalar, aten.lt.Scalar), _compare),
    aten.where.self: _choose,
    aten.threshold_backward.default: _pass_back,
    **dict.fromkeys((aten.sum.dim_IntList, aten.mean.dim), _reduce),
    aten.convolution.default: _convolve,
    aten.convolution_backward.default: _convolve_back,
    aten.max_pool2d_with_indices.default: _pool,
    aten.max_pool2d_with_indices_backward.default: _pool_back,
    aten._native_batch_norm_legit.no_stats: _normalise_batch,
    aten._native_batch_norm_legit_no_training.default: _normalise_batch,
    aten.native_batch_norm_backward.default: _normalise_batch_back,
    aten.native_layer_norm.default: _normalise_rows,
    aten.native_layer_norm_backward.default: _normalise_rows_back,
    aten.bmm.default: _multiply_batches,
    aten.embedding.default: _look_up,
    **dict.fromkeys((aten.index_add.default, aten.index_copy.default), _add_rows),
    aten.cat.default: _join,
}
