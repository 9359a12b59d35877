"""Convolutions of images with channels last, and their gradients, by oneDNN as PyTorch calls it.

In: images in any order of memory. Out: images with channels last; filters as PyTorch has them. With few pixels and a
large filter, planes are read instead: there oneDNN has quicker code for them, and there is little to rearrange.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from openipu.run.drafts.ownership import gives_fresh_memory

Window = tuple[Sequence[int], Sequence[int], Sequence[int], int]  # strides, pads, dilations, groups

_LAST, _PLANES = torch.channels_last, torch.contiguous_format
_convolve = torch.ops.aten.convolution.default._op
_differentiate = torch.ops.aten.convolution_backward.default._op


@gives_fresh_memory
def convolve(images: torch.Tensor, filters: torch.Tensor, bias: torch.Tensor | None, *window: *Window) -> torch.Tensor:
    """The convolution."""
    *sizes, groups = window
    source = images.contiguous(memory_format=_choose_order(images, filters))
    found: torch.Tensor = _convolve(source, filters, bias, *sizes, False, [0, 0], groups)
    return found.contiguous(memory_format=_LAST)


@gives_fresh_memory
def find_image_gradient(
    gradient: torch.Tensor, images: torch.Tensor, filters: torch.Tensor, *window: *Window
) -> torch.Tensor:
    """The gradient of the images, of which only the size is read."""
    return _find_gradient(0, gradient, images, filters, window).contiguous(memory_format=_LAST)


@gives_fresh_memory
def find_filter_gradient(
    gradient: torch.Tensor, images: torch.Tensor, filters: torch.Tensor, *window: *Window
) -> torch.Tensor:
    """The gradient of the filter."""
    return _find_gradient(1, gradient, images, filters, window).contiguous()


def _find_gradient(
    place: int, gradient: torch.Tensor, images: torch.Tensor, filters: torch.Tensor, window: Window
) -> torch.Tensor:
    """That of images, or of the filter, by its place among the results of the operator."""
    *sizes, groups = window
    order = _choose_order(images, filters)
    given = gradient.contiguous(memory_format=order), images.contiguous(memory_format=order)
    wanted = [number == place for number in range(3)]
    found: torch.Tensor = _differentiate(*given, filters, None, *sizes, False, [0, 0], groups, wanted)[place]
    return found


@gives_fresh_memory
def turn_back(images: torch.Tensor) -> torch.Tensor:
    """The same with its planes behind one another, in memory of its own."""
    return images.clone(memory_format=_PLANES)


def _choose_order(images: torch.Tensor, filters: torch.Tensor) -> torch.memory_format:
    window = filters.shape[2] * filters.shape[3]
    return _PLANES if window > 1 and filters.numel() > images.numel() else _LAST
