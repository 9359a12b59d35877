"""When compiling C++ kernels in the background is worth it.

In: the user's wish. Out: the seconds of steps after which kernels are compiled. They take some seconds of one core and
are then in the cache; nobody knows how long a run will be, and a run of a few steps needs none.
"""

from __future__ import annotations

import os

from openipu.errors import OptionError
from openipu.run import thresholds

PATIENCE_VARIABLE = "OPENIPU_COMPILE_AFTER"
NEVER = float("inf")

# Stochastic rounding without kernels makes steps several times longer, and so do kernels of inference.


def choose_patience(*, large_gain: bool) -> float:
    """Seconds of steps before kernels are compiled: the user's wish, else by what they gain."""
    wished = os.environ.get(PATIENCE_VARIABLE)
    if not wished:
        return thresholds.LARGE_GAIN_SECONDS if large_gain else thresholds.SMALL_GAIN_SECONDS
    try:
        return float(wished)
    except ValueError:
        raise OptionError(
            f"{PATIENCE_VARIABLE} is {wished!r}, which is not a number of seconds: set it to 20, for example, or `inf`."
        ) from None
