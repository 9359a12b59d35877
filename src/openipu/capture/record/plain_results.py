"""Results of common ops on tensors that lie densely, without asking PyTorch.

In: an op that is being recorded. Out: what its meta kernel would return; None wherever that is not obvious, or an
argument is not as it should be, so that PyTorch decides and says what is wrong. PyTorch's meta kernels for these are
Python that imports `torch._dynamo` and sympy when they are first called: more than a second of a program's first
result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from openipu.capture.record.plain_layers import KEYWORDS, LAYERS
from openipu.capture.record.plain_tensors import META, are_plain, broadcast, copy, is_dense, make
from openipu.capture.record.torch_private import TorchDispatchMode

aten = torch.ops.aten

Rule = Callable[..., Any]

_STATISTICS = torch.float32
_LIKE_KEYWORDS = frozenset({"dtype", "layout", "device", "pin_memory", "memory_format"})


class PlainResults(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is on, ops on meta tensors that are no part of a recording have their results from here, too."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Without this, torch wraps each dispatch in a guard against dynamo, and imports it."""
        return False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        tensors = [value for value in (*args, *(kwargs or {}).values()) if isinstance(value, torch.Tensor)]
        found = None
        if tensors and all(tensor.is_meta for tensor in tensors):
            found = make_plain_result(func, args, kwargs or {})
        return func(*args, **(kwargs or {})) if found is None else found


def make_plain_result(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """New meta tensors, or None."""
    if func in _LIKE:
        return _make_like(args, kwargs)
    rule = _RULES.get(func)
    known = rule is not None and all(name in KEYWORDS.get(func, ()) for name in kwargs)
    return rule(*args, **kwargs) if known and rule is not None else None


def _combine(first: Any, second: Any) -> torch.Tensor | None:
    """Arithmetic of two tensors of one format, or of one and a number."""
    tensors = [value for value in (first, second) if isinstance(value, torch.Tensor)]
    numbers = [value for value in (first, second) if not isinstance(value, torch.Tensor)]
    if not tensors or any(type(value) not in (int, float) for value in numbers) or not are_plain(*tensors):
        return None
    shape = broadcast(tensors)
    return None if shape is None else make(shape, tensors[0].dtype)


def _scale(first: Any, second: Any) -> torch.Tensor | None:
    """A product, which may also be one with a mask or with whole numbers of the same shape."""
    tensors = [value for value in (first, second) if isinstance(value, torch.Tensor)]
    if len(tensors) == 2 and first.dtype is not second.dtype:
        same = first.shape == second.shape and first.dim() > 0 and all(map(is_dense, tensors))
        return make(first.shape, torch.promote_types(first.dtype, second.dtype)) if same else None
    return _combine(first, second)


def _map(tensor: Any, *numbers: Any) -> torch.Tensor | None:
    """One result for each element."""
    plain = are_plain(tensor) and all(type(number) in (int, float) for number in numbers)
    return copy(tensor) if plain else None


def _compare(tensor: Any, number: Any) -> torch.Tensor | None:
    dense = type(number) in (int, float) and is_dense(tensor)
    return make(tensor.shape, torch.bool) if dense else None


def _choose(condition: Any, first: Any, second: Any) -> torch.Tensor | None:
    tensors = (condition, first, second)
    usual = condition.dtype is torch.bool and first.dtype is second.dtype and all(map(is_dense, tensors))
    shape = broadcast(tensors)
    return make(shape, first.dtype) if usual and shape is not None else None


def _combine_masks(first: Any, second: Any) -> torch.Tensor | None:
    masks = first.dtype is torch.bool and second.dtype is torch.bool and first.shape == second.shape
    return copy(first) if masks and is_dense(first) and is_dense(second) else None


def _pass_back(gradient: Any, value: Any, *rest: Any) -> torch.Tensor | None:
    """The gradient of something that has one result for each element."""
    return copy(value) if are_plain(gradient, value) and gradient.shape == value.shape else None


def _make_like(args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
    (tensor,) = args
    device, layout = kwargs.get("device"), kwargs.get("layout")
    usual = device in (None, META) and layout in (None, torch.strided) and not kwargs.get("pin_memory")
    usual &= kwargs.get("memory_format") in (None, torch.preserve_format) and kwargs.keys() <= _LIKE_KEYWORDS
    if not usual or not tensor.is_meta or not is_dense(tensor):
        return None
    return make(tensor.shape, kwargs.get("dtype") or tensor.dtype)


def _normalise(value: Any, dimension: int, to_float: bool) -> torch.Tensor | None:
    inside = are_plain(value) and -value.dim() <= dimension < value.dim()
    return copy(value) if inside and not to_float else None


def _normalise_back(gradient: Any, result: Any, dimension: int, dtype: torch.dtype) -> torch.Tensor | None:
    same = are_plain(gradient, result) and gradient.shape == result.shape and gradient.dtype is dtype
    return copy(gradient) if same and -gradient.dim() <= dimension < gradient.dim() else None


def _reduce(tensor: Any, dimensions: Sequence[int] | None, keep: bool = False) -> torch.Tensor | None:
    if not are_plain(tensor) or any(not -tensor.dim() <= number < tensor.dim() for number in dimensions or ()):
        return None
    reduced = {number % tensor.dim() for number in dimensions or range(tensor.dim())}
    if dimensions and len(reduced) != len(dimensions):
        return None  # one was named twice
    sizes = [1 if number in reduced else size for number, size in enumerate(tensor.shape)]
    return make(sizes if keep else [size for n, size in enumerate(sizes) if n not in reduced], tensor.dtype)


def _reduce_all(tensor: Any) -> torch.Tensor | None:
    return make((), tensor.dtype) if are_plain(tensor) else None


def _multiply(first: Any, second: Any) -> torch.Tensor | None:
    """Matrices may lie in any order: the result does not."""
    if first.dim() != 2 or second.dim() != 2 or first.shape[1] != second.shape[0]:
        return None
    same = first.dtype is second.dtype and first.dtype.is_floating_point and first.numel() and second.numel()
    return make((first.shape[0], second.shape[1]), first.dtype) if same else None


def _multiply_and_add(added: Any, first: Any, second: Any) -> torch.Tensor | None:
    product = _multiply(first, second)
    fits = product is not None and added.dtype is product.dtype
    return product if fits and product is not None and added.shape in (product.shape, product.shape[1:]) else None


def _gather(tensor: Any, dimension: int, index: Any) -> torch.Tensor | None:
    return make(index.shape, tensor.dtype) if _can_index(tensor, dimension, index) else None


def _scatter(tensor: Any, dimension: int, index: Any, source: Any) -> torch.Tensor | None:
    fits = _can_index(tensor, dimension, index) and are_plain(tensor, source) and source.shape == index.shape
    return copy(tensor) if fits else None


def _can_index(tensor: Any, dimension: int, index: Any) -> bool:
    if not are_plain(tensor) or not is_dense(index) or index.dtype is not torch.int64 or index.dim() != tensor.dim():
        return False
    sizes = [(tensor.shape[n], index.shape[n]) for n in range(tensor.dim()) if n != dimension % tensor.dim()]
    return -tensor.dim() <= dimension < tensor.dim() and all(wanted <= size for size, wanted in sizes)


def _stack(tensors: Sequence[Any], dimension: int = 0) -> torch.Tensor | None:
    same = dimension == 0 and are_plain(*tensors) and len({tensor.shape for tensor in tensors}) == 1
    return make((len(tensors), *tensors[0].shape), tensors[0].dtype) if same else None


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
    shape = _shape_convolution(images, weight, strides, pads, dilations, transposed, groups)
    if shape is None or (bias is not None and (not are_plain(images, bias) or bias.shape != weight.shape[:1])):
        return None
    return make(shape, images.dtype)


def _shape_convolution(
    images: Any,
    weight: Any,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    transposed: bool,
    groups: int,
) -> tuple[int, ...] | None:
    if transposed or not are_plain(images, weight) or images.dim() != 4 or weight.dim() != 4:
        return None
    results, channels, *window = weight.shape
    if channels * groups != images.shape[1] or results % groups or min(strides) < 1 or min(pads) < 0:
        return None
    sizes = _slide(images.shape[2:], window, strides, pads, dilations)
    return None if sizes is None else (images.shape[0], results, *sizes)


def _slide(
    sizes: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
) -> tuple[int, int] | None:
    """How many places a window has; None if it has none."""
    window, strides, pads, dilations = map(_pair, (window, strides, pads, dilations))
    reach = [(count - 1) * step for count, step in zip(window, dilations, strict=True)]
    room = [size + 2 * pad - one - 1 for size, pad, one in zip(sizes, pads, reach, strict=True)]
    rows, columns = (one // step + 1 for one, step in zip(room, strides, strict=True))
    return (rows, columns) if min(room) >= 0 else None


def _pair(numbers: Sequence[int]) -> Sequence[int]:
    return numbers if len(numbers) == 2 else (numbers[0], numbers[0])


def _convolve_back(
    gradient: Any,
    images: Any,
    weight: Any,
    bias_sizes: Sequence[int] | None,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    transposed: bool,
    output_pads: Sequence[int],
    groups: int,
    wanted: Sequence[bool],
) -> tuple[torch.Tensor | None, ...] | None:
    shape = _shape_convolution(images, weight, strides, pads, dilations, transposed, groups)
    if shape is None or not are_plain(images, gradient) or tuple(gradient.shape) != shape:
        return None
    made = (images.shape, weight.shape, bias_sizes or weight.shape[:1])
    return tuple(make(size, images.dtype) if want else None for size, want in zip(made, wanted, strict=True))


def _pool(
    images: Any,
    window: Sequence[int],
    strides: Sequence[int] = (),
    pads: Sequence[int] = (0,),
    dilations: Sequence[int] = (1,),
    rounds_up: bool = False,
) -> tuple[torch.Tensor, torch.Tensor] | None:
    if rounds_up or not are_plain(images) or images.dim() != 4 or min(*strides, *window, 1) < 1:
        return None
    if any(2 * pad > size for pad, size in zip(_pair(pads), _pair(window), strict=True)):
        return None
    sizes = _slide(images.shape[2:], window, strides or window, pads, dilations)
    if sizes is None:
        return None
    shape = (*images.shape[:2], *sizes)
    return make(shape, images.dtype), make(shape, torch.int64)


def _pool_back(gradient: Any, images: Any, *rest: Any) -> torch.Tensor | None:
    places = rest[-1]
    same = are_plain(gradient, images) and gradient.shape == places.shape and images.dim() == 4
    return copy(images) if same else None


def _normalise_batch(images: Any, weight: Any, bias: Any, *rest: Any) -> tuple[torch.Tensor, ...] | None:
    channels = _count_channels(images, weight, bias)
    if channels is None:
        return None
    return copy(images), make((channels,), _STATISTICS), make((channels,), _STATISTICS)


def _count_channels(images: Any, weight: Any, bias: Any) -> int | None:
    if not are_plain(images) or images.dtype is not _STATISTICS or images.dim() < 2:
        return None
    channels = int(images.shape[1])
    given = [value for value in (weight, bias) if value is not None]
    return channels if all(value.dtype is _STATISTICS and value.shape == (channels,) for value in given) else None


def _normalise_batch_back(gradient: Any, images: Any, weight: Any, *rest: Any) -> tuple[torch.Tensor, ...] | None:
    channels, wanted = _count_channels(images, weight, None), rest[-1]
    if channels is None or not all(wanted) or not are_plain(gradient, images) or gradient.shape != images.shape:
        return None
    return copy(images), make((channels,), _STATISTICS), make((channels,), _STATISTICS)


_LIKE = frozenset({aten.ones_like.default, aten.zeros_like.default})
_RULES: dict[Any, Rule] = {
    **dict.fromkeys((aten.add.Tensor, aten.sub.Tensor, aten.div.Tensor), _combine),
    **dict.fromkeys((aten.maximum.default, aten.minimum.default), _combine),
    aten.mul.Tensor: _scale,
    **dict.fromkeys((aten.relu.default, aten.exp.default, aten.expm1.default, aten.log.default), _map),
    **dict.fromkeys((aten.tanh.default, aten.sigmoid.default, aten.abs.default, aten.pow.Tensor_Scalar), _map),
    **dict.fromkeys((aten.div.Scalar, aten.mul.Scalar, aten.rsub.Scalar), _map),
    **dict.fromkeys((aten.neg.default, aten.sqrt.default, aten.rsqrt.default, aten.reciprocal.default), _map),
    **dict.fromkeys((aten.sin.default, aten.cos.default, aten.erf.default, aten.floor.default), _map),
    **dict.fromkeys((aten.eq.Scalar, aten.ne.Scalar, aten.ge.Scalar), _compare),
    **dict.fromkeys((aten.gt.Scalar, aten.le.Scalar, aten.lt.Scalar), _compare),
    **dict.fromkeys((aten.bitwise_and.Tensor, aten.bitwise_or.Tensor), _combine_masks),
    aten.where.self: _choose,
    aten.threshold_backward.default: _pass_back,
    **dict.fromkeys((aten._softmax.default, aten._log_softmax.default), _normalise),
    **dict.fromkeys((aten._softmax_backward_data.default, aten._log_softmax_backward_data.default), _normalise_back),
    **dict.fromkeys((aten.mean.dim, aten.sum.dim_IntList), _reduce),
    **dict.fromkeys((aten.mean.default, aten.sum.default), _reduce_all),
    aten.mm.default: _multiply,
    aten.addmm.default: _multiply_and_add,
    aten.gather.default: _gather,
    aten.scatter_add.default: _scatter,
    aten.stack.default: _stack,
    aten.convolution.default: _convolve,
    aten.convolution_backward.default: _convolve_back,
    aten.max_pool2d_with_indices.default: _pool,
    aten.max_pool2d_with_indices_backward.default: _pool_back,
    aten._native_batch_norm_legit.default: lambda images, weight, bias, *rest: (
        _normalise_batch(images, weight, bias) if rest[2] else None
    ),
    aten._native_batch_norm_legit.no_stats: _normalise_batch,
    aten._native_batch_norm_legit_no_training.default: _normalise_batch,
    aten.native_batch_norm_backward.default: _normalise_batch_back,
    **LAYERS,
}
