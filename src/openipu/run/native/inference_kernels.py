"""Native code for convolutions, LSTM layers and products of one row, in inference.

In: the `NativeParts` of a program. Out: a job for the compiling process; then the functions of the library that it has
made. `use_native_kernels` puts them into the graph.
"""

from __future__ import annotations

import ctypes
from typing import Any

from openipu.run.images.tiled_convolutions import TileCode
from openipu.run.native import sources
from openipu.run.native.build import NativeJob, NativeProgram
from openipu.run.native.source_files import write_source_job
from openipu.run.native.sources.convolution import name_kernel, write_source
from openipu.run.passes.native_kernels import NativeKernels, NativeParts
from openipu.run.passes.native_lstm import LstmCode

_POINTER, _COUNT, _CHOICE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
_CONVOLUTION = (*(_POINTER,) * 4, _COUNT, _CHOICE)
_ROW = (*(_POINTER,) * 4, *(_COUNT,) * 2, _CHOICE)
TILE_FUNCTIONS = (
    (sources.tiles.FILTER_FUNCTION, (*(_POINTER,) * 2, *(_COUNT,) * 4, *(_CHOICE,) * 2)),
    (sources.tiles.FUNCTION, (*(_POINTER,) * 6, *(_COUNT,) * 7, *(_CHOICE,) * 2)),
    (sources.tiles.STRIPS_FUNCTION, (*(_POINTER,) * 5, *(_COUNT,) * 8, *(_CHOICE,) * 2)),
    (sources.tiles.GRADIENT_FUNCTION, (*(_POINTER,) * 4, *(_COUNT,) * 7, _CHOICE)),
)
_LAYER = (_POINTER, *(_COUNT,) * 2, *(_POINTER,) * 8, *(_COUNT,) * 5, *(_CHOICE,) * 3)


def write_kernel_job(parts: NativeParts) -> NativeJob:
    """What the compiling process is told."""
    texts = {
        "convolutions": write_source(parts.geometries) if parts.geometries else "",
        "LSTM layers": sources.lstm.SOURCE * parts.layers,
        "products": sources.row.SOURCE * parts.row,
        "3 x 3 filters": sources.tiles.SOURCE * parts.tiles,
    }
    names = [name for name, text in texts.items() if text]
    return write_source_job(" and ".join(names), "".join(texts.values()))


def load_kernels(native: NativeProgram, parts: NativeParts) -> NativeKernels:
    """The functions of the job's library. It stays in memory for as long as the process."""
    library = ctypes.CDLL(str(native.library))
    convolutions = {geometry: _load(library, name_kernel(geometry), _CONVOLUTION) for geometry in parts.geometries}
    layer = row = None
    if parts.layers:
        lanes = int(library[sources.lstm.WIDTH_FUNCTION]())
        layer = LstmCode(_load(library, sources.lstm.FUNCTION, _LAYER), lanes, sources.lstm.EXPONENTS)
    if parts.row:
        row = _load(library, sources.row.FUNCTION, _ROW)
    tiles = TileCode(*(_load(library, *function) for function in TILE_FUNCTIONS)) if parts.tiles else None
    return NativeKernels(convolutions, layer, row, tiles)


def _load(library: ctypes.CDLL, name: str, arguments: tuple[Any, ...]) -> Any:
    function = library[name]
    function.argtypes, function.restype = arguments, None
    return function
