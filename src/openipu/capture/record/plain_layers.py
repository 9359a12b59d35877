"""Results of the ops that layers of networks are made of, on tensors that lie densely, without asking PyTorch.

In: an op that is being recorded. Out: as in `plain_results`, whose table these rules are part of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from openipu.capture.record.plain_tensors import are_plain, copy, is_dense, make

aten = torch.ops.aten

Tensors = tuple[torch.Tensor, ...]

_STATISTICS = torch.float32
_INDICES = (torch.int64, torch.int32)


def _activate(tensor: Any, *numbers: Any, approximate: str = "none") -> torch.Tensor | None:
    """A function of each element, with numbers or nothing beside it."""
    usual = all(number is None or type(number) in (int, float) for number in numbers)
    return copy(tensor) if usual and approximate in ("none", "tanh") and are_plain(tensor) else None


def _activate_back(gradient: Any, value: Any, *, approximate: str = "none") -> torch.Tensor | None:
    same = are_plain(gradient, value) and gradient.shape == value.shape
    return copy(value) if same and approximate in ("none", "tanh") else None


def _drop(tensor: Any, share: Any, train: Any) -> Tensors | None:
    usual = type(share) is float and 0 < share < 1 and train is True and are_plain(tensor)
    return (copy(tensor), make(tensor.shape, torch.bool)) if usual else None


def _normalise_layer(
    tensor: Any, shape: Sequence[int], weight: Any, bias: Any, epsilon: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None:
    statistics = _shape_statistics(tensor, shape, weight, bias)
    if statistics is None:
        return None
    return copy(tensor), make(statistics, _STATISTICS), make(statistics, _STATISTICS)


def _shape_statistics(tensor: Any, shape: Sequence[int], weight: Any, bias: Any) -> tuple[int, ...] | None:
    count = len(shape)
    given = [value for value in (weight, bias) if value is not None]
    if not 0 < count <= tensor.dim() or tuple(tensor.shape[-count:]) != tuple(shape) or tensor.dtype is not _STATISTICS:
        return None
    if not are_plain(tensor, *given) or any(tuple(value.shape) != tuple(shape) for value in given):
        return None
    return (*tensor.shape[:-count], *[1] * count)


def _normalise_layer_back(
    gradient: Any, tensor: Any, shape: Sequence[int], mean: Any, deviation: Any, weight: Any, bias: Any, wanted: Any
) -> tuple[torch.Tensor | None, ...] | None:
    statistics = _shape_statistics(tensor, shape, weight, bias)
    if statistics is None or not are_plain(gradient, tensor) or gradient.shape != tensor.shape:
        return None
    if tuple(mean.shape) != statistics or tuple(deviation.shape) != statistics or weight is None or bias is None:
        return None
    made = (tensor.shape, shape, shape)
    return tuple(make(size, tensor.dtype) if want else None for size, want in zip(made, wanted, strict=True))


def _multiply_batches(first: Any, second: Any) -> torch.Tensor | None:
    """Matrices may lie in any order: the result does not."""
    if first.dim() != 3 or second.dim() != 3 or first.shape[0] != second.shape[0]:
        return None
    same = first.dtype is second.dtype and first.dtype.is_floating_point and first.numel() and second.numel()
    if not same or first.shape[2] != second.shape[1]:
        return None
    return make((first.shape[0], first.shape[1], second.shape[2]), first.dtype)


def _look_up(
    weight: Any, indices: Any, padding: int = -1, by_frequency: bool = False, sparse: bool = False
) -> torch.Tensor | None:
    usual = are_plain(weight) and weight.dim() == 2 and indices.dtype in _INDICES and is_dense(indices)
    return make((*indices.shape, weight.shape[1]), weight.dtype) if usual and indices.dim() else None


def _look_up_back(gradient: Any, indices: Any, rows: int, padding: int, by_frequency: bool) -> torch.Tensor | None:
    same = are_plain(gradient) and is_dense(indices) and indices.dtype in _INDICES
    fits = same and tuple(gradient.shape[:-1]) == tuple(indices.shape) and gradient.dtype is _STATISTICS
    return make((rows, gradient.shape[-1]), gradient.dtype) if fits and type(rows) is int and rows > 0 else None


def _make_new(tensor: Any, shape: Sequence[int], number: Any = 0) -> torch.Tensor | None:
    usual = all(type(size) is int and size >= 0 for size in shape) and type(number) in (int, float)
    return make(shape, tensor.dtype) if usual else None


def _put_slice_back(gradient: Any, shape: Sequence[int], *place: int) -> torch.Tensor | None:
    """Zeros but for a part: a slice, or one row of a dimension."""
    dimension = place[0]
    usual = gradient.dtype.is_floating_point and gradient.numel() > 0 and -len(shape) <= dimension < len(shape)
    return make(shape, gradient.dtype) if usual else None


def _join(tensors: Sequence[Any], dimension: int = 0) -> torch.Tensor | None:
    first = tensors[0]
    if not are_plain(*tensors) or not -first.dim() <= dimension < first.dim():
        return None
    place = dimension % first.dim()
    shapes = [[size for number, size in enumerate(tensor.shape) if number != place] for tensor in tensors]
    if any(tensor.dim() != first.dim() for tensor in tensors) or any(shape != shapes[0] for shape in shapes):
        return None
    sizes = list(first.shape)
    sizes[place] = sum(tensor.shape[place] for tensor in tensors)
    return make(sizes, first.dtype)


def _average(images: Any, sizes: Sequence[int]) -> torch.Tensor | None:
    usual = are_plain(images) and images.dim() == 4 and len(sizes) == 2 and min(sizes) > 0
    return make((*images.shape[:2], *sizes), images.dtype) if usual else None


def _average_back(gradient: Any, images: Any) -> torch.Tensor | None:
    same = are_plain(gradient, images) and images.dim() == 4 and gradient.shape[:2] == images.shape[:2]
    return copy(images) if same and gradient.dim() == 4 else None


KEYWORDS = dict.fromkeys((aten.gelu.default, aten.gelu_backward.default), ("approximate",))  # that a rule understands
LAYERS: dict[Any, Callable[..., Any]] = {
    **dict.fromkeys((aten.gelu.default, aten.silu.default, aten.leaky_relu.default, aten.elu.default), _activate),
    **dict.fromkeys((aten.clamp.default, aten.softplus.default), _activate),
    **dict.fromkeys((aten.gelu_backward.default, aten.silu_backward.default), _activate_back),
    **dict.fromkeys((aten.tanh_backward.default, aten.sigmoid_backward.default), _activate_back),
    aten.native_dropout.default: _drop,
    aten.native_layer_norm.default: _normalise_layer,
    aten.native_layer_norm_backward.default: _normalise_layer_back,
    aten.bmm.default: _multiply_batches,
    aten.embedding.default: _look_up,
    aten.embedding_dense_backward.default: _look_up_back,
    **dict.fromkeys((aten.new_zeros.default, aten.new_ones.default, aten.new_full.default), _make_new),
    **dict.fromkeys((aten.slice_backward.default, aten.select_backward.default), _put_slice_back),
    aten.cat.default: _join,
    aten._adaptive_avg_pool2d.default: _average,
    aten._adaptive_avg_pool2d_backward.default: _average_back,
}
