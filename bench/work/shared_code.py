"""C++ kernels that all programs share, compiled before anything is measured.

In: a cache that ways share. Out: the kernels in that cache. The engine `operators` takes them from there and compiles
none: without them, figures would depend on which model was measured first.
"""

from __future__ import annotations


class SharedCode:
    """In a process of its own."""

    def compile(self) -> bool:
        """Whether all of them are there now."""
        from openipu.run.kernels import find_provider
        from openipu.run.kernels.catalog import DIRECT_CONVOLUTION, KERNELS

        shared = [kernel for kernel in KERNELS if kernel is not DIRECT_CONVOLUTION]  # which knows its geometry
        return len(find_provider().obtain(shared).select(shared)) == len(shared)
