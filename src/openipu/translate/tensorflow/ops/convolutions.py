"""Convolutions and their gradients, which TensorFlow has as ops of their own.

SAME padding may need one row more behind than in front; torch has no such padding, so that the input is padded first.
The gradient of the input is a transposed convolution; of the filter, that part of torch's backward.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812

from openipu.translate.rules import rule
from openipu.translate.site import Site
from openipu.translate.tensorflow.ops.layouts import (
    Windows,
    channels_as_given,
    channels_first,
    has_channels_last,
    read_windows,
)

Tensor = torch.Tensor
_DEPTHWISE = "Depthwise"


def _filter_first(weight: Tensor, depthwise: bool) -> Tensor:
    """[window..., in, out] -> [out, in, window...]; of a depthwise one [window..., channels, multiplier]."""
    rank = weight.dim() - 2
    if depthwise:
        moved = weight.permute(rank, rank + 1, *range(rank))
        return moved.reshape(-1, 1, *moved.shape[2:])
    return weight.permute(rank + 1, rank, *range(rank))


def _filter_as_given(weight: Tensor, sizes: list[int], depthwise: bool) -> Tensor:
    rank = weight.dim() - 2
    if depthwise:
        weight = weight.reshape(sizes[-2], sizes[-1], *weight.shape[2:])
        return weight.permute(*range(2, rank + 2), 0, 1)
    return weight.permute(*range(2, rank + 2), 1, 0)


def _is_depthwise(site: Site) -> bool:
    return site.node.op.startswith(_DEPTHWISE)


def _count_groups(channels: int, filter_sizes: list[int], depthwise: bool) -> int:
    return channels if depthwise else channels // filter_sizes[-2]


def _pad(x: Tensor, windows: Windows) -> tuple[Tensor, list[int]]:
    """The input, padded where torch could not, and the padding that is left for torch."""
    if windows.symmetric:
        return x, list(windows.before)
    return F.pad(x, windows.pad_sizes()), [0] * windows.rank


def _convolve(site: Site, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    last, depthwise = has_channels_last(site), _is_depthwise(site)
    x = channels_first(x, last)
    windows = read_windows(site, list(x.shape[2:]), list(weight.shape[:-2]), last)
    groups = _count_groups(x.shape[1], list(weight.shape), depthwise)
    x, padding = _pad(x, windows)
    result = torch.convolution(
        x,
        _filter_first(weight, depthwise),
        bias,
        list(windows.strides),
        padding,
        list(windows.dilations),
        False,
        [0] * windows.rank,
        groups,
    )
    return channels_as_given(result, last)


@rule("Conv2D", "Conv3D", "DepthwiseConv2dNative")
def convolve(site: Site) -> Tensor:
    """With a bias where one is added to the result (`fusing.py`)."""
    return _convolve(site, site.input(0), site.input(1), site.optional(2))


@rule("Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput", static=(0,))
def find_input_gradient(site: Site) -> Tensor:
    """A transposed convolution. Also what TensorFlow calls one (`conv2d_transpose`)."""
    last, depthwise = has_channels_last(site), _is_depthwise(site)
    sizes, weight, gradient = site.numbers(0, "shape of the input"), site.input(1), site.input(2)
    gradient = channels_first(gradient, last)
    spatial = sizes[1:-1] if last else sizes[2:]
    channels = sizes[-1] if last else sizes[1]
    windows = read_windows(site, spatial, list(weight.shape[:-2]), last)
    symmetric = windows.symmetric
    padding = list(windows.before) if symmetric else [0] * windows.rank
    missing = []
    for place in range(windows.rank):
        whole = spatial[place] + (0 if symmetric else windows.before[place] + windows.behind[place])
        reached = (
            (gradient.shape[2 + place] - 1) * windows.strides[place]
            + windows.dilations[place] * (windows.kernel[place] - 1)
            + 1
            - 2 * padding[place]
        )
        missing.append(whole - reached)
    strides, dilations = list(windows.strides), list(windows.dilations)
    beyond = [
        max(0, gap - max(stride, dilation) + 1)
        for gap, stride, dilation in zip(missing, strides, dilations, strict=True)
    ]
    result = torch.convolution(
        gradient,
        _filter_first(weight, depthwise),
        None,
        strides,
        padding,
        dilations,
        True,
        [gap - more for gap, more in zip(missing, beyond, strict=True)],
        _count_groups(channels, list(weight.shape), depthwise),
    )
    if any(beyond):  # the last rows of the input were in no window
        result = F.pad(result, [number for more in reversed(beyond) for number in (0, more)])
    if not symmetric:
        for place in range(windows.rank):
            result = result.narrow(2 + place, windows.before[place], spatial[place])
    return channels_as_given(result, last)


@rule("Conv2DBackpropFilter", "Conv3DBackpropFilterV2", "DepthwiseConv2dNativeBackpropFilter", static=(1,))
def find_filter_gradient(site: Site) -> Tensor:
    last, depthwise = has_channels_last(site), _is_depthwise(site)
    x, sizes, gradient = channels_first(site.input(0), last), site.numbers(1, "shape of the filter"), site.input(2)
    gradient = channels_first(gradient, last)
    windows = read_windows(site, list(x.shape[2:]), sizes[:-2], last)
    groups = _count_groups(x.shape[1], sizes, depthwise)
    x, padding = _pad(x, windows)
    torch_sizes = [sizes[-2] * sizes[-1], 1, *sizes[:-2]] if depthwise else [sizes[-1], sizes[-2], *sizes[:-2]]
    _, found, _ = torch.ops.aten.convolution_backward(
        gradient,
        x,
        gradient.new_zeros(()).expand(torch_sizes),  # its shape alone counts
        None,
        list(windows.strides),
        padding,
        list(windows.dilations),
        False,
        [0] * windows.rank,
        groups,
        [False, True, False],
    )
    result: Tensor = _filter_as_given(found, sizes, depthwise)
    return result


@rule("BiasAdd", "BiasAddV1")
def add_bias(site: Site) -> Tensor:
    x, bias = site.input(0), site.input(1)
    return x + bias if has_channels_last(site) else x + bias.reshape([-1, *([1] * (x.dim() - 2))])


@rule("BiasAddGrad")
def find_bias_gradient(site: Site) -> Tensor:
    gradient = site.input(0)
    channel = gradient.dim() - 1 if has_channels_last(site) else 1
    return gradient.sum([axis for axis in range(gradient.dim()) if axis != channel])
