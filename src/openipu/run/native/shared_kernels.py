"""Native code that all programs share: rounding, dropout, GELU, products, norms, 3 x 3 filters, of any shape.

Out: the code is installed, at once if the user's cache has it, else when a process in the
background has compiled it, in some seconds. Until then, and without a compiler, operators
do the same, with the same results; those of products and GELU in other last bits.
"""

from __future__ import annotations

import ctypes
import logging
from typing import Any

from openipu.run.half.rounded_draws import has_kernel, install_kernel
from openipu.run.half.rounded_products import install_half_products
from openipu.run.images.norms import NormCode, install_norms
from openipu.run.images.tiled_convolutions import TileCode, install_tiles
from openipu.run.native import sources
from openipu.run.native.build import NativeBuild, NativeJob, NativeProgram, find_native
from openipu.run.native.inference_kernels import TILE_FUNCTIONS
from openipu.run.native.source_files import write_source_job
from openipu.run.native.sources.draws import PRELUDE
from openipu.run.passes.native_dropout import install_dropout
from openipu.run.passes.native_gelu import install_gelu
from openipu.run.passes.native_products import install_products

_logger = logging.getLogger("openipu")
_NAME = "stochastic rounding, dropout, GELU, products and convolutions"
_POINTER, _COUNT, _CHOICE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
_ROUNDING = (*(_POINTER,) * 3, *(_COUNT,) * 3, _POINTER, *(_COUNT,) * 2, *(_CHOICE,) * 3)
_DROPOUT = (*(_POINTER,) * 3, *(_COUNT,) * 5, _CHOICE, ctypes.c_float, _CHOICE)
_GELU = (*(_POINTER,) * 3, _COUNT, _CHOICE)
_PRODUCTS = (_POINTER, _COUNT, _POINTER, _COUNT, _POINTER, *(_COUNT,) * 3, ctypes.c_float, *(_CHOICE,) * 2)
_SIDE = (_POINTER, *(_COUNT,) * 2, _CHOICE)
_HALF_PRODUCTS = (
    *(*_SIDE, *_SIDE, *(_POINTER,) * 2, _CHOICE),
    *(*(_COUNT,) * 4, _POINTER, *(_COUNT,) * 3, _CHOICE, _POINTER, _COUNT, _CHOICE),
)
_NORM = (*(_POINTER,) * 11, *(_COUNT,) * 2, *(ctypes.c_double,) * 2, _CHOICE, _POINTER, _CHOICE)
_NORM_GRADIENTS = (*(_POINTER,) * 10, *(_COUNT,) * 2, _POINTER, _CHOICE)

_builds: list[NativeBuild | None] = []  # of this process, whichever program asked first; None where it has ended


def prepare_kernels(*, build: bool) -> None:
    """Install the code from the cache; else, if it may be built, start that."""
    if has_kernel() or _builds:
        return
    job = write_job()
    try:
        native = find_native(job.key)
        if native is not None:
            _install(native)
        elif build:
            # A second of one core, once for this user, makes steps shorter, and with stochastic rounding several
            # times: at no low priority.
            _builds.append(NativeBuild(job, background=False))
            _logger.info("Code for %s is being compiled in the background, for all programs.", _NAME)
    except Exception as error:  # whatever a loader or a compiler raises, the operators give the same results
        _give_up(error)


def take_over_kernels(*, wait: bool = False) -> None:
    """Install what was built in the background, once it is there."""
    build = _builds[0] if _builds else None
    if build is None or not (wait or build.done):
        return
    _builds[:] = [None]
    try:
        _install(build.finish())
        _logger.info("There is native code for %s from here on, with the same results.", _NAME)
    except Exception as error:
        _give_up(error)


def _give_up(error: Exception) -> None:
    _builds[:] = [None]
    _logger.debug("There is no native code for %s: %s.", _NAME, error)


def write_job() -> NativeJob:
    """What the compiling process is told."""
    parts = (
        sources.rounding,
        sources.dropout,
        sources.gelu,
        sources.products,
        sources.half_products,
        sources.norms,
        sources.tiles,
    )
    return write_source_job(_NAME, PRELUDE + "".join(part.SOURCE for part in parts))


def load_rounding(native: NativeProgram) -> Any:
    """The function that rounds, of the job's library, which stays in memory for as long as the process."""
    return _load(native, sources.rounding.FUNCTION, _ROUNDING)


def load_dropout(native: NativeProgram) -> Any:
    """The function that keeps some elements."""
    return _load(native, sources.dropout.FUNCTION, _DROPOUT)


def load_gelu(native: NativeProgram) -> Any:
    """The function that computes an activation, or its gradient."""
    return _load(native, sources.gelu.FUNCTION, _GELU)


def load_products(native: NativeProgram) -> Any:
    """The function that multiplies columns by columns."""
    return _load(native, sources.products.FUNCTION, _PRODUCTS)


def load_half_products(native: NativeProgram) -> Any:
    """The function that rounds its sums to half."""
    return _load(native, sources.half_products.FUNCTION, _HALF_PRODUCTS)


def load_norms(native: NativeProgram) -> NormCode:
    """The functions for norms of images."""
    return NormCode(
        _load(native, sources.norms.FUNCTION, _NORM),
        _load(native, sources.norms.GRADIENT_FUNCTION, _NORM_GRADIENTS),
    )


def load_tiles(native: NativeProgram) -> TileCode:
    """The functions for 3 x 3 filters."""
    return TileCode(*(_load(native, name, arguments) for name, arguments in TILE_FUNCTIONS))


def _load(native: NativeProgram, name: str, arguments: tuple[Any, ...]) -> Any:
    function = ctypes.CDLL(str(native.library))[name]
    function.argtypes, function.restype = arguments, None
    return function


def _install(native: NativeProgram) -> None:
    rounding, dropout = load_rounding(native), load_dropout(native)
    gelu, products, tiles = load_gelu(native), load_products(native), load_tiles(native)
    half_products, norms = load_half_products(native), load_norms(native)
    install_kernel(rounding)
    install_dropout(dropout)
    install_gelu(gelu)
    install_products(products)
    install_half_products(half_products)
    install_norms(norms)
    install_tiles(tiles)
