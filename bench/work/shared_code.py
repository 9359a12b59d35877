"""Native code that all programs share, compiled before anything is measured.

In: a cache that ways share. Out: the code in that cache. Each way takes it from there:
without it, figures would depend on which model was measured first.
"""

from __future__ import annotations

import shutil
import time

MOST_SECONDS = 120.0  # a compiler takes three


class SharedCode:
    """In a process of its own."""

    def compile(self) -> bool:
        """Whether there is such code now."""
        from openipu.run.half.rounded_draws import has_kernel
        from openipu.run.native import prepare_kernels, take_over_kernels

        if shutil.which("g++") is None:
            return False
        prepare_kernels(build=True)
        deadline = time.perf_counter() + MOST_SECONDS
        while not has_kernel() and time.perf_counter() < deadline:
            time.sleep(0.1)
            take_over_kernels()
        return has_kernel()
