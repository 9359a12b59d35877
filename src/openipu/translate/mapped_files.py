"""Files with models and weights, mapped into memory.

In: the path of a plain file, which may be anybody's. Out: its bytes; pages are read when they are looked at.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from openipu.errors import TranslationError
from openipu.files.origin import Origin
from openipu.files.plain import open_plain

MANY_BYTES = 1 << 50


def map_file(path: Path, what: str) -> memoryview:
    """A plain file as a map: pages are read when they are looked at."""
    origin = Origin(f"{what}: {path}", TranslationError, "Check that the file is there, whole, and a plain file.")
    with open_plain(path, origin, MANY_BYTES) as file:
        if os.fstat(file.fileno()).st_size == 0:
            return memoryview(b"")
        try:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except (OSError, ValueError, OverflowError) as error:  # more bytes than there are addresses
            raise origin.fail(f"cannot be mapped: {error}") from error
