"""Convolutions with 3 x 3 filters by Winograd's algorithm, a C++ kernel that multiplies a quarter as often.

In: images with channels last, and the kernel. Out: their convolution, and both its gradients; `WinogradConvolution` for
inference, with its filter transformed once and what follows in one call. Results differ in last bits from those of a
plain sum. Operands that the kernel does not take are left to PyTorch's operator.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from openipu.run import thresholds
from openipu.run.drafts.ownership import gives_fresh_memory
from openipu.run.kernels import OperandError, address_of, address_or_none
from openipu.run.kernels.catalog import (
    CONVOLVE_STRIPS,
    CONVOLVE_WINOGRAD,
    SUM_FILTER_GRADIENT,
    TRANSFORM_FILTER,
    FilterGradientArguments,
    FilterTransformArguments,
    WinogradArguments,
    WinogradStripsArguments,
)
from openipu.run.kernels.library import LoadedKernel
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.memory.host_memory import borrow_scratch
from openipu.run.rewrites.images.convolution_patterns import Convolution, read_weights

aten = torch.ops.aten

_LAST = torch.channels_last
_POINTS = 36  # of a window
_RESULT_SIDE = 4  # pixels of the result from one window to the next
_CHANNEL_STEP = 16  # channels, of which there have to be multiples
_STRIP = 32  # channels of the result that lie together, at most
_BLOCK = 32  # windows that are convolved together: their points stay in the cache


def fits_winograd(
    images: Sequence[int],
    filter_shape: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    *,
    in_strips: bool = False,
) -> bool:
    """Whether the kernel takes this convolution, and is worth it; `in_strips`: the filter may be transformed strip by
    strip."""
    if len(images) != 4 or tuple(filter_shape[2:]) != (3, 3) or groups != 1:
        return False
    if set(strides) != {1} or set(dilations) != {1} or set(pads) not in ({0}, {1}):
        return False
    count, channels, height, width = images
    results, pad = filter_shape[0], pads[0]
    rows, columns = height + 2 * pad - 2, width + 2 * pad - 2
    windows, pixels = _count_windows(count, rows, columns), count * rows * columns
    if (
        channels % _CHANNEL_STEP
        or results % _CHANNEL_STEP
        or pixels < thresholds.WINOGRAD_USE * _RESULT_SIDE**2 * windows
    ):
        return False
    fits = (
        windows >= thresholds.WINOGRAD_WINDOWS and 4 * _POINTS * channels * results <= thresholds.WINOGRAD_FILTER_BYTES
    )
    if in_strips and windows <= thresholds.WINOGRAD_FEW_WINDOWS:
        fits = windows >= thresholds.WINOGRAD_STRIP_WINDOWS and channels * results <= thresholds.WINOGRAD_STRIP_FILTER
    return fits and 9 * pixels * channels * results >= thresholds.WINOGRAD_WORK


class WinogradConvolution:
    """A convolution of inference with its transformed filter, which follows newly loaded ones."""

    def __init__(self, memory: DeviceMemory, plan: Convolution, kernel: LoadedKernel) -> None:
        self._memory, self._plan, self._kernel = memory, plan, kernel
        self.overwrites = False  # what is added is read by nobody afterwards: the result takes its memory
        self._transformed: tuple[torch.Tensor, torch.Tensor | None] | None = None  # until it is asked for
        memory.follow(self, plan.names)

    @staticmethod
    def accepts(plan: Convolution) -> bool:
        """Whether the kernel takes a convolution, with what follows, and is worth it."""
        window = plan.strides, plan.pads, plan.dilations, plan.groups
        shape = plan.source.meta["val"].shape
        return plan.activation in ("none", "relu") and fits_winograd(shape, plan.weight.shape, *window)

    def refresh(self) -> None:
        """Forget the old weights."""
        self._transformed = None

    def apply(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        """The result for these pixels, channels last."""
        plan = self._plan
        try:
            if self._transformed is None:
                weight, bias = read_weights(self._memory, plan)
                transformed = _transform(self._kernel, weight.float().contiguous(), kept=True)
                self._transformed = transformed, None if bias is None else bias.float().contiguous()
            filters, bias = self._transformed
            added = None if other is None else other.contiguous(memory_format=_LAST)
            target = added if self.overwrites and added is other else None
            results, relu = plan.weight.shape[0], plan.activation == "relu"
            return _convolve(
                self._kernel, x, filters, results, plan.pads[0], bias=bias, other=added, relu=relu, target=target
            )
        except OperandError:
            weight, bias = read_weights(self._memory, plan)
            found = torch.conv2d(x, weight, bias, 1, plan.pads[0])
            found = found if other is None else found + other
            return torch.relu_(found) if plan.activation == "relu" else found


@gives_fresh_memory
def convolve_images(
    images: torch.Tensor, filters: torch.Tensor, bias: torch.Tensor | None, pad: int, kernel: LoadedKernel
) -> torch.Tensor:
    """The convolution, channels last."""
    try:
        return _convolve_once(images, filters, None if bias is None else bias.contiguous(), pad, kernel, rotated=False)
    except OperandError:
        return torch.conv2d(images, filters, bias, 1, pad)


@gives_fresh_memory
def find_winograd_image_gradient(
    gradient: torch.Tensor, filters: torch.Tensor, pad: int, kernel: LoadedKernel
) -> torch.Tensor:
    """The gradient of the images: a convolution with the rotated filter, in which channels are results."""
    try:
        return _convolve_once(gradient, filters, None, 2 - pad, kernel, rotated=True)
    except OperandError:
        return torch.conv_transpose2d(gradient, filters, None, 1, pad)


@gives_fresh_memory
def find_winograd_filter_gradient(
    gradient: torch.Tensor, images: torch.Tensor, pad: int, kernel: LoadedKernel
) -> torch.Tensor:
    """The gradient of the filter."""
    images, gradient = images.contiguous(memory_format=_LAST), gradient.contiguous(memory_format=_LAST)
    (count, channels, height, width), results = images.shape, gradient.shape[1]
    rows, columns = height + 2 * pad - 2, width + 2 * pad - 2
    windows = _count_windows(count, rows, columns)
    found = torch.empty(results, channels, 3, 3, dtype=torch.float32)
    block = min(
        max(
            thresholds.WINOGRAD_GRADIENT_BYTES // (4 * _POINTS * (channels + results)),
            thresholds.WINOGRAD_GRADIENT_BLOCK,
        ),
        windows,
    )
    scratch = borrow_scratch("points", _POINTS * (block * (channels + results) + channels * results))
    try:
        _check_sizes(windows, channels, results, pad)
        arguments = FilterGradientArguments(
            images=address_of(images, count * height * width * channels, order=_LAST),
            gradient=address_of(gradient, count * rows * columns * results, order=_LAST),
            result=address_of(found, found.numel()),
            scratch=address_of(scratch, scratch.numel()),
            count=count,
            height=height,
            width=width,
            channels=channels,
            results=results,
            pad=pad,
            block=block,
            threads=torch.get_num_threads(),
        )
    except OperandError:
        wanted = [False, True, False]
        filters = images.new_empty(found.shape)
        window = [1, 1], [pad, pad], [1, 1], False, [0, 0], 1
        plain: torch.Tensor = aten.convolution_backward(gradient, images, filters, None, *window, wanted)[1]
        return plain
    kernel[SUM_FILTER_GRADIENT](arguments)
    return found


def _check_sizes(windows: int, channels: int, results: int, pad: int) -> None:
    """The kernel computes whole vectors of channels, and some windows."""
    if windows < 1 or channels % _CHANNEL_STEP or results % _CHANNEL_STEP or not channels or not results:
        raise OperandError(f"{windows} windows of {channels} channels, {results} results")
    if not 0 <= pad <= 2:
        raise OperandError(f"pads of {pad}")


def _read_filter(filters: torch.Tensor, rotated: bool) -> tuple[int, int, int, int]:
    """Results, channels, and the steps between them; rotated, each is the other."""
    results, channels = filters.shape[:2]
    return (channels, results, 9, 9 * channels) if rotated else (results, channels, 9 * channels, 9)


def _transform(
    kernel: LoadedKernel, filters: torch.Tensor, *, rotated: bool = False, kept: bool = False
) -> torch.Tensor:
    """The transformed filter, in memory of its own if it is kept; `rotated`: by 180 degrees, with results and channels
    exchanged."""
    results, channels, result_step, channel_step = _read_filter(filters, rotated)
    count = _POINTS * _round_up(results) * channels
    found = torch.empty(count, dtype=torch.float32) if kept else borrow_scratch("filter", count)[:count]
    kernel[TRANSFORM_FILTER](
        FilterTransformArguments(
            filter=address_of(filters, results * channels * 9),
            transformed=address_of(found, count),
            results=results,
            channels=channels,
            result_step=result_step,
            channel_step=channel_step,
            rotated=rotated,
            threads=torch.get_num_threads(),
        )
    )
    return found


def _convolve_once(
    images: torch.Tensor,
    filters: torch.Tensor,
    bias: torch.Tensor | None,
    pad: int,
    kernel: LoadedKernel,
    *,
    rotated: bool,
) -> torch.Tensor:
    """With a filter that will be another one the next time."""
    filters = filters.contiguous()
    results, channels, result_step, channel_step = _read_filter(filters, rotated)
    count, _, height, width = images.shape
    windows, threads = _count_windows(count, height + 2 * pad - 2, width + 2 * pad - 2), torch.get_num_threads()
    _check_sizes(windows, channels, results, pad)
    if windows > thresholds.WINOGRAD_FEW_WINDOWS:
        return _convolve(kernel, images, _transform(kernel, filters, rotated=rotated), results, pad, bias=bias)
    images = images.contiguous(memory_format=_LAST)
    found = _make_result(count, results, height, width, pad)
    scratch = borrow_scratch("points", _POINTS * (windows * channels + threads * (channels + windows) * _STRIP))
    kernel[CONVOLVE_STRIPS](
        WinogradStripsArguments(
            images=address_of(images, count * channels * height * width, order=_LAST),
            filter=address_of(filters, results * channels * 9),
            bias=address_or_none(bias, results),
            result=address_of(found, found.numel(), order=_LAST),
            scratch=address_of(scratch, scratch.numel()),
            count=count,
            height=height,
            width=width,
            channels=channels,
            results=results,
            pad=pad,
            result_step=result_step,
            channel_step=channel_step,
            rotated=rotated,
            threads=threads,
        )
    )
    return found


def _convolve(
    kernel: LoadedKernel,
    images: torch.Tensor,
    transformed: torch.Tensor,
    results: int,
    pad: int,
    *,
    bias: torch.Tensor | None = None,
    other: torch.Tensor | None = None,
    relu: bool = False,
    target: torch.Tensor | None = None,
) -> torch.Tensor:
    images = images.contiguous(memory_format=_LAST)
    count, channels, height, width = images.shape
    windows, threads = _count_windows(count, height + 2 * pad - 2, width + 2 * pad - 2), torch.get_num_threads()
    _check_sizes(windows, channels, results, pad)
    result = _make_result(count, results, height, width, pad) if target is None else target
    block = min(_BLOCK, -(-windows // threads))
    scratch = borrow_scratch("points", threads * _POINTS * block * (channels + _round_up(results)))
    size = count * results * (height + 2 * pad - 2) * (width + 2 * pad - 2)
    kernel[CONVOLVE_WINOGRAD](
        WinogradArguments(
            images=address_of(images, count * channels * height * width, order=_LAST),
            transformed=address_of(transformed, _POINTS * _round_up(results) * channels),
            bias=address_or_none(bias, results),
            other=address_or_none(other, size, order=_LAST),
            result=address_of(result, size, order=_LAST),
            scratch=address_of(scratch, scratch.numel()),
            count=count,
            height=height,
            width=width,
            channels=channels,
            results=results,
            pad=pad,
            block=block,
            relu=relu,
            threads=threads,
        )
    )
    return result


def _make_result(count: int, results: int, height: int, width: int, pad: int) -> torch.Tensor:
    shape = (count, results, height + 2 * pad - 2, width + 2 * pad - 2)
    return torch.empty(shape, dtype=torch.float32, memory_format=_LAST)


def _count_windows(count: int, rows: int, columns: int) -> int:
    return count * -(-rows // _RESULT_SIDE) * -(-columns // _RESULT_SIDE) if rows > 0 and columns > 0 else 0


def _round_up(results: int) -> int:
    return -(-results // _STRIP) * _STRIP
