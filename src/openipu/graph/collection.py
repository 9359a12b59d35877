"""No garbage collection while many objects are made.

In: nothing. Out: a context manager, also to be used as a decorator. Compiling makes hundreds of thousands of objects
that stay, and Python would walk over all of them again and again to find none to free.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_collection() -> Iterator[None]:
    """Collect again at the end, if Python did so before."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
