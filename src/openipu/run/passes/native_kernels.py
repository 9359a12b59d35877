"""What of an inference program native functions of our own compute, in place of its operators.

In: a draft. Out: the `NativeParts` that it wants; or, once these are compiled (`run/native/inference_kernels.py`), the
same draft with `NativeKernels` in their place. The rest of the program stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from openipu.run.drafts.draft import Draft
from openipu.run.images.direct_convolutions import Geometry, Kernel, list_geometries, use_direct_convolutions
from openipu.run.images.packed_convolutions import pack_convolutions, pays_for_tiles
from openipu.run.images.tiled_convolutions import TileCode
from openipu.run.memory.device_memory import DeviceMemory
from openipu.run.passes.native_lstm import LstmCode, pays_for_layers, use_native_layers
from openipu.run.passes.native_row import Row, pays_for_row, use_native_row


@dataclass(frozen=True)
class NativeParts:
    """What is to be compiled."""

    geometries: tuple[Geometry, ...] = ()  # of convolutions
    layers: bool = False  # LSTM layers, of any shape
    row: bool = False  # products of one row, of any shape
    tiles: bool = False  # convolutions with 3 x 3 filters, of any shape

    def __bool__(self) -> bool:
        return bool(self.geometries) or self.layers or self.row or self.tiles


@dataclass(frozen=True, eq=False)
class NativeKernels:
    """The functions."""

    convolutions: Mapping[Geometry, Kernel] = field(default_factory=dict)
    layer: LstmCode | None = None
    row: Row | None = None
    tiles: TileCode | None = None

    def __bool__(self) -> bool:
        return bool(self.convolutions) or any(code is not None for code in (self.layer, self.row, self.tiles))


def list_native_parts(draft: Draft) -> NativeParts:
    """What native code pays for."""
    return NativeParts(list_geometries(draft), pays_for_layers(draft), pays_for_row(draft), pays_for_tiles(draft))


def use_native_kernels(draft: Draft, memory: DeviceMemory, kernels: NativeKernels) -> None:
    """Put native code in the place of the operators that it is there for."""
    if kernels.convolutions:
        use_direct_convolutions(draft, memory, kernels.convolutions)
    if kernels.tiles is not None:
        pack_convolutions(draft, memory, kernels.tiles)
    if kernels.layer is not None:
        use_native_layers(draft, memory, kernels.layer)
    if kernels.row is not None:
        use_native_row(draft, memory, kernels.row)
