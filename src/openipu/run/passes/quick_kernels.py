"""Operators whose usual kernel is slow on this host, by way of a quicker one with the same results.

In: the arguments of the ATen operator. Out: what it would return.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

_MANY_CHANNELS = 16  # with so many, the kernel compares whole vectors
_FEWEST_CHANNELS = 8  # with fewer, turning the tensor costs more than it gains


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
    if tensor.dim() != 4 or tensor.shape[1] < _FEWEST_CHANNELS or not tensor.is_contiguous():
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
    halves = tuple(kernel) in ((2,), (2, 2)) and tuple(stride) in ((), (2,), (2, 2))
    if not halves or any(padding) or ceil_mode or tensor.shape[1] >= _MANY_CHANNELS:
        return (torch.max_pool2d(tensor, kernel, stride or kernel, padding, dilation, ceil_mode),)  # type: ignore[arg-type]
    rows, columns = tensor.shape[2] // 2 * 2, tensor.shape[3] // 2 * 2
    corners = [tensor[:, :, row:rows:2, column:columns:2] for row in (0, 1) for column in (0, 1)]
    return (torch.maximum(torch.maximum(corners[0], corners[1]), torch.maximum(corners[2], corners[3])),)


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
