"""Operators whose usual kernel is slow on this host, by way of a quicker one with the same results.

In: the arguments of the ATen operator. Out: what it would return.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from openipu.run import thresholds

_normalise_into = torch.ops.aten.native_batch_norm.out
_update_statistics = torch.ops.aten._native_batch_norm_legit_functional.default._op


def max_pool_2d(
    tensor: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`max_pool2d_with_indices`, channel beside channel: the kernel for planes compares one number at a time.

    The indices keep that order of memory, which backward puts right where it has to.
    """
    pool = torch.ops.aten.max_pool2d_with_indices.default
    if tensor.dim() != 4 or tensor.shape[1] < thresholds.NORM_CHANNELS or not tensor.is_contiguous():
        found: tuple[torch.Tensor, torch.Tensor] = pool(tensor, kernel, stride, padding, dilation, ceil_mode)
        return found
    turned = tensor.contiguous(memory_format=torch.channels_last)
    values, indices = pool(turned, kernel, stride, padding, dilation, ceil_mode)
    return values.contiguous(), indices


def pool_values(
    tensor: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[torch.Tensor]:
    """The values of `max_pool2d_with_indices`, channel beside channel, where nobody reads the indices.

    Pairs of pixels that do not overlap are four slices, of which each is compared at the speed of memory.
    """
    halves = tuple(kernel) in ((2,), (2, 2)) and tuple(stride) in ((), (2,), (2, 2)) and set(dilation) <= {1}
    if not halves or any(padding) or ceil_mode or tensor.shape[1] >= thresholds.POOL_CHANNELS:
        return (torch.max_pool2d(tensor, kernel, stride or kernel, padding, dilation, ceil_mode),)  # type: ignore[arg-type]
    rows, columns = tensor.shape[2] // 2 * 2, tensor.shape[3] // 2 * 2
    corners = [tensor[:, :, row:rows:2, column:columns:2] for row in (0, 1) for column in (0, 1)]
    return (torch.maximum(torch.maximum(corners[0], corners[1]), torch.maximum(corners[2], corners[3])),)


def safe_softmax(tensor: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    """`_safe_softmax`, where a row of minus infinities is one of zeros.

    A plain softmax makes nothing but NaN of such a row, so it is enough to look at one number of each.
    """
    if not tensor.dim() or not tensor.shape[dim]:
        found: torch.Tensor = torch.ops.aten._safe_softmax.default(tensor, dim, dtype)
        return found
    shares = torch.softmax(tensor, dim, dtype=dtype)
    if math.isnan(shares.select(dim, 0).sum()):
        masked = tensor.amax(dim, keepdim=True).isneginf()
        return torch.where(masked, torch.zeros((), dtype=shares.dtype), shares)
    return shares


def batch_norm(
    images: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor | None,
    running_variance: torch.Tensor | None,
    training: bool,
    momentum: float,
    epsilon: float,
) -> tuple[torch.Tensor, ...]:
    """`native_batch_norm`. In training, the usual kernel adds up planes number by number."""
    if not training or running_mean is not None or not _has_planes(images, weight, bias):
        return torch.native_batch_norm(
            images, weight, bias, running_mean, running_variance, training, momentum, epsilon
        )
    return _normalise(images, weight, bias, epsilon)[:3]


def batch_norm_with_statistics(
    images: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    running_mean: torch.Tensor,
    running_variance: torch.Tensor,
    training: bool,
    momentum: float,
    epsilon: float,
) -> tuple[torch.Tensor, ...]:
    """`_native_batch_norm_legit_functional`: the same, with new running statistics behind the results."""
    if not training or not _has_planes(images, weight, bias):
        found: tuple[torch.Tensor, ...] = _update_statistics(
            images, weight, bias, running_mean, running_variance, training, momentum, epsilon
        )
        return found
    normal, mean, scale, variance = _normalise(images, weight, bias, epsilon)
    count = images.numel() // images.shape[1]
    unbiased = variance * (count / (count - 1))
    statistics = (running_mean.lerp(mean, momentum), running_variance.lerp(unbiased, momentum))
    return normal, mean, scale, *statistics


def _has_planes(images: torch.Tensor, *factors: torch.Tensor | None) -> bool:
    """Whether these are images in float32, channel behind channel, with enough pixels to each."""
    return (
        images.dim() == 4
        and images.is_contiguous()
        and images.shape[2] * images.shape[3] >= thresholds.NORM_PLANE
        and images.numel() > 0
        and all(value is None or value.dtype is torch.float32 for value in (images, *factors))
    )


def _normalise(
    images: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, epsilon: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Images, the means of channels, the reciprocals of their deviations, and their variances.

    A group norm has vector code for the moments of each plane, of which those of a channel are made; what it writes is
    written over.
    """
    count, channels, height, width = images.shape
    normal, means, scales = torch.native_group_norm(images, None, None, count, channels, height * width, channels, 0.0)
    mean = means.mean(0)
    variance = scales.reciprocal_().square_().mean(0).add_(means.var(0, correction=0))
    unused = (torch.empty(0, dtype=torch.float32), torch.empty(0, dtype=torch.float32))
    _normalise_into(
        images,
        weight,
        bias,
        mean,
        variance,
        False,
        0.0,
        epsilon,
        out=normal,
        save_mean=unused[0],
        save_invstd=unused[1],
    )
    return normal, mean, (variance + epsilon).rsqrt_(), variance


def read_strided(row: torch.Tensor, size: Sequence[int], stride: Sequence[int], offset: int) -> torch.Tensor:
    """`as_strided` of a flat tensor, which may begin anywhere in memory."""
    dense = row.contiguous()
    return dense.as_strided(size, stride, dense.storage_offset() + offset)


def copy_strided(row: torch.Tensor, size: Sequence[int], stride: Sequence[int], offset: int) -> torch.Tensor:
    """`as_strided_copy` of a flat tensor."""
    return read_strided(row, size, stride, offset).clone()


def write_strided(
    row: torch.Tensor, source: torch.Tensor, size: Sequence[int], stride: Sequence[int], offset: int
) -> torch.Tensor:
    """`as_strided_scatter` into a flat tensor: a copy of it, with `source` in these places."""
    copy = row.clone(memory_format=torch.contiguous_format)
    copy.as_strided(size, stride, offset).copy_(source)
    return copy
