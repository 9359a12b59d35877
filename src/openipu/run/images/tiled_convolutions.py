"""Convolutions with 3 x 3 filters by native code of our own, which multiplies a quarter as often as the plain sum.

In: images that lie channel beside channel. Out: their convolution, and both its gradients, by the functions of
`run/native/sources/tiles.py`; `TiledConvolution` for inference, with its filter spread once and what follows in one
call. Results differ in last bits from those of a plain sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from openipu.run.images.convolution_patterns import Convolution, read_weights
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.memory.host_memory import borrow_scratch

# filter, spread filter, results, channels, steps between results and between channels, whether it is turned, threads
SpreadFilter = Callable[[int, int, int, int, int, int, int, int], None]
# images, spread filter, bias, what is added, result, scratch; images, height, width, channels, results, pads, tiles of
# a block, whether negative results are zero, threads
Convolve = Callable[[int, int, int | None, int | None, int, int, int, int, int, int, int, int, int, int, int], None]
# images, filter, bias, result, scratch; images, height, width, channels, results, pads, steps between results and
# between channels, whether the filter is turned, threads
ConvolveStrips = Callable[[int, int, int | None, int, int, int, int, int, int, int, int, int, int, int, int], None]
# images, gradient, result, scratch; images, height, width, channels, results, pads, tiles of a block, threads
SumFilter = Callable[[int, int, int, int, int, int, int, int, int, int, int, int], None]

_LAST = torch.channels_last
_PLACES = 36  # of a tile
_STEP = 4  # pixels of the result from one tile to the next
_LANES, _STRIP = 16, 32  # channels, of which there have to be multiples, and those of the result that lie together
_BLOCK = 32  # tiles that are convolved together: their places stay in the cache
_GRADIENT_BYTES, _GRADIENT_BLOCK = 2 << 20, 64  # the same for the gradient of a filter: of their places, at least
_FEWEST_TILES = 24  # below, bringing the filter into its form, or reading it so, costs what is gained
_MOST_FILTER_BYTES = 12 << 20  # of a filter in that form, four times what it was
_FEW_TILES = 96  # up to here, a filter is brought into its form strip by strip, where that is not kept: then
_FEWEST_IN_STRIPS, _LARGEST_IN_STRIPS = 12, 1 << 18  # fewer tiles pay, and larger filters: by channels and results
_LEAST_WORK = 1 << 22  # multiplications
_LEAST_USE = 0.6  # of the pixels of all tiles


@dataclass(frozen=True, eq=False)
class TileCode:
    """The native functions."""

    spread_filter: SpreadFilter
    convolve: Convolve
    convolve_strips: ConvolveStrips
    sum_filter: SumFilter


_installed: list[TileCode] = []  # for training: one, or none


def has_tiles() -> bool:
    """Whether native code is installed."""
    return bool(_installed)


def install_tiles(code: TileCode | None) -> None:
    """Use native code in graphs that are generated from here on, or no longer."""
    _installed[:] = [] if code is None else [code]


def fits_tiles(
    images: Sequence[int],
    filter_shape: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    *,
    in_strips: bool = False,
) -> bool:
    """Whether native code is for this convolution, and pays; also where it may bring the filter into its form strip by
    strip."""
    if len(images) != 4 or tuple(filter_shape[2:]) != (3, 3) or groups != 1:
        return False
    if set(strides) != {1} or set(dilations) != {1} or set(pads) not in ({0}, {1}):
        return False
    count, channels, height, width = images
    results, pad = filter_shape[0], pads[0]
    rows, columns = height + 2 * pad - 2, width + 2 * pad - 2
    tiles, pixels = _count_tiles(count, rows, columns), count * rows * columns
    if channels % _LANES or results % _LANES or pixels < _LEAST_USE * _STEP**2 * tiles:
        return False
    fits = tiles >= _FEWEST_TILES and 4 * _PLACES * channels * results <= _MOST_FILTER_BYTES
    if in_strips and tiles <= _FEW_TILES:
        fits = tiles >= _FEWEST_IN_STRIPS and channels * results <= _LARGEST_IN_STRIPS
    return fits and 9 * pixels * channels * results >= _LEAST_WORK


class TiledConvolution:
    """A convolution of inference with its filter in the form of the native code, which follows newly loaded ones."""

    def __init__(self, memory: DeviceMemory, plan: Convolution, code: TileCode) -> None:
        self._memory, self._plan, self._code = memory, plan, code
        self.overwrites = False  # what is added is read by nobody afterwards: the result takes its memory
        self._spread: tuple[torch.Tensor, torch.Tensor | None] | None = None  # until it is asked for
        memory.follow(self, plan.names)

    @staticmethod
    def accepts(plan: Convolution) -> bool:
        """Whether native code pays for a convolution, with what follows."""
        window = plan.strides, plan.pads, plan.dilations, plan.groups
        shape = plan.source.meta["val"].shape
        return plan.activation in ("none", "relu") and fits_tiles(shape, plan.weight.shape, *window)

    def refresh(self) -> None:
        """Forget the old weights."""
        self._spread = None

    def apply(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        """The result for these pixels, channels last."""
        if self._spread is None:
            weight, bias = read_weights(self._memory, self._plan)
            weight = weight.float().contiguous()
            self._spread = _spread(self._code, weight, kept=True), None if bias is None else bias.float().contiguous()
        spread, bias = self._spread
        results, pad = self._plan.weight.shape[0], self._plan.pads[0]
        added = None if other is None else other.contiguous(memory_format=_LAST)
        target = added if self.overwrites and added is other else None
        relu = self._plan.activation == "relu"
        return _convolve(self._code, x, spread, results, pad, bias=bias, other=added, relu=relu, target=target)


def convolve_tiles(images: torch.Tensor, filters: torch.Tensor, bias: torch.Tensor | None, pad: int) -> torch.Tensor:
    """The convolution, channels last."""
    return _convolve_once(images, filters, None if bias is None else bias.contiguous(), pad, turned=False)


def find_tiled_image_gradient(gradient: torch.Tensor, filters: torch.Tensor, pad: int) -> torch.Tensor:
    """The gradient of the images: a convolution with the filter turned round, in which channels are results."""
    return _convolve_once(gradient, filters, None, 2 - pad, turned=True)


def find_tiled_filter_gradient(gradient: torch.Tensor, images: torch.Tensor, pad: int) -> torch.Tensor:
    """The gradient of the filter."""
    images, gradient = images.contiguous(memory_format=_LAST), gradient.contiguous(memory_format=_LAST)
    (count, channels, height, width), results = images.shape, gradient.shape[1]
    found = images.new_empty(results, channels, 3, 3)
    block = max(_GRADIENT_BYTES // (4 * _PLACES * (channels + results)), _GRADIENT_BLOCK)
    block = min(block, _count_tiles(count, *gradient.shape[2:]))
    scratch = borrow_scratch("places", _PLACES * (block * (channels + results) + channels * results))
    _installed[0].sum_filter(
        *(images.data_ptr(), gradient.data_ptr(), found.data_ptr(), scratch.data_ptr()),
        *(count, height, width, channels, results, pad, block, torch.get_num_threads()),
    )
    return found


def _read_filter(filters: torch.Tensor, turned: bool) -> tuple[int, int, int, int]:
    """Results, channels, and the steps between them; turned, each is the other."""
    results, channels = filters.shape[:2]
    return (channels, results, 9, 9 * channels) if turned else (results, channels, 9 * channels, 9)


def _spread(code: TileCode, filters: torch.Tensor, *, turned: bool = False, kept: bool = False) -> torch.Tensor:
    """A filter as the native code reads it, in memory of its own if it is kept; turned: with results and channels
    exchanged, and pixels in other order."""
    results, channels, *steps = _read_filter(filters, turned)
    count = _PLACES * _round_up(results) * channels
    found = torch.empty(count, dtype=torch.float32) if kept else borrow_scratch("filter", count)
    code.spread_filter(
        *(filters.data_ptr(), found.data_ptr(), results, channels, *steps, int(turned), torch.get_num_threads())
    )
    return found


def _convolve_once(
    images: torch.Tensor, filters: torch.Tensor, bias: torch.Tensor | None, pad: int, *, turned: bool
) -> torch.Tensor:
    """With a filter that will be another one the next time."""
    code, filters = _installed[0], filters.contiguous()
    results, channels, *steps = _read_filter(filters, turned)
    count, _, height, width = images.shape
    tiles, threads = _count_tiles(count, height + 2 * pad - 2, width + 2 * pad - 2), torch.get_num_threads()
    if tiles > _FEW_TILES:
        spread = _spread(code, filters, turned=turned)
        return _convolve(code, images, spread, results, pad, bias=bias)
    images = images.contiguous(memory_format=_LAST)
    found = _make_result(count, results, height, width, pad)
    scratch = borrow_scratch("places", _PLACES * (tiles * channels + threads * (channels + tiles) * _STRIP))
    code.convolve_strips(
        *(images.data_ptr(), filters.data_ptr(), _point_to(bias), found.data_ptr(), scratch.data_ptr()),
        *(count, height, width, channels, results, pad, *steps, int(turned), threads),
    )
    return found


def _convolve(
    code: TileCode,
    images: torch.Tensor,
    spread: torch.Tensor,
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
    if target is None:
        target = _make_result(count, results, height, width, pad)
    threads = torch.get_num_threads()
    block = min(_BLOCK, -(-_count_tiles(count, *target.shape[2:]) // threads))
    scratch = borrow_scratch("places", threads * _PLACES * block * (channels + _round_up(results)))
    code.convolve(
        *(images.data_ptr(), spread.data_ptr(), _point_to(bias), _point_to(other), target.data_ptr()),
        *(scratch.data_ptr(), count, height, width, channels, results, pad, block, int(relu), threads),
    )
    return target


def _make_result(count: int, results: int, height: int, width: int, pad: int) -> torch.Tensor:
    shape = (count, results, height + 2 * pad - 2, width + 2 * pad - 2)
    return torch.empty(shape, dtype=torch.float32, memory_format=_LAST)


def _point_to(tensor: torch.Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _count_tiles(count: int, rows: int, columns: int) -> int:
    return count * -(-rows // _STEP) * -(-columns // _STEP)


def _round_up(results: int) -> int:
    return -(-results // _STRIP) * _STRIP
