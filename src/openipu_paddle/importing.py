"""No garbage collection while Paddle, PyTorch and openipu are imported.

In: nothing. Out: a context manager. Their modules are some 300,000 objects, all of which stay; Python would walk over
them again and again, half a second in all, and find none to free.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

LARGE = ("paddle", "torch")  # packages of which the most objects are


@contextmanager
def import_quietly() -> Iterator[None]:
    """Collect again at the end, if Python did so before; where both were new, what they made is never walked over."""
    if not gc.isenabled():
        yield
        return
    fresh = not any(name in sys.modules for name in LARGE)
    gc.disable()
    try:
        yield
    finally:
        if fresh:  # a process that has just begun: nothing of the user's is here yet
            gc.freeze()
        gc.enable()
