"""Native code for stochastic rounding: one library for any shape and any program.

Out: the code is installed for the instant tier, at once if the user's cache has it, else when a process in the
background has compiled it, in about a second. Until then, and without a compiler, the rounding runs as single
operators, with the same results.
"""

from __future__ import annotations

import ctypes
import logging
from typing import Any

from openipu.run.half.rounded_draws import has_kernel, install_kernel
from openipu.run.native.build import NativeBuild, NativeJob, NativeProgram, find_native
from openipu.run.native.convolution_kernels import write_source_job
from openipu.run.native.rounding_source import FUNCTION, SOURCE

_logger = logging.getLogger("openipu")
_NAME = "stochastic rounding"
_POINTER, _COUNT, _CHOICE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
_ARGUMENTS = (*(_POINTER,) * 3, *(_COUNT,) * 3, _POINTER, *(_COUNT,) * 2, *(_CHOICE,) * 3)

_builds: list[NativeBuild | None] = []  # of this process, whichever program asked first; None where it has ended


def prepare_rounding(*, build: bool) -> None:
    """Install the code from the cache; else, if it may be built, start that."""
    if has_kernel() or _builds:
        return
    job = write_job()
    try:
        native = find_native(job.key)
        if native is not None:
            _install(native)
        elif build:
            # A second of one core, once for this user, makes every step several times shorter: at no low priority.
            _builds.append(NativeBuild(job, background=False))
            _logger.info("Code for stochastic rounding is being compiled in the background, for all programs.")
    except Exception as error:  # whatever a loader or a compiler raises, the operators give the same results
        _give_up(error)


def take_over_rounding() -> None:
    """Install what was built in the background, once it is there."""
    build = _builds[0] if _builds else None
    if build is None or not build.done:
        return
    _builds[:] = [None]
    try:
        _install(build.finish())
        _logger.info("Stochastic rounding has native code from here on, with the same results.")
    except Exception as error:
        _give_up(error)


def _give_up(error: Exception) -> None:
    _builds[:] = [None]
    _logger.debug("Stochastic rounding stays without native code: %s.", error)


def write_job() -> NativeJob:
    """What the compiling process is told."""
    return write_source_job(_NAME, SOURCE)


def load_rounding(native: NativeProgram) -> Any:
    """The function of the job's library, which stays in memory for as long as the process."""
    function = ctypes.CDLL(str(native.library))[FUNCTION]
    function.argtypes, function.restype = _ARGUMENTS, None
    return function


def _install(native: NativeProgram) -> None:
    install_kernel(load_rounding(native))
