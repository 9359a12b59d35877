"""Reports that are either old or new and complete, never half written.

In: the path that a file is to have. Out: a path beside it to write to, moved into place when all went well.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from openipu import saving
from openipu.errors import ProfileError


@contextmanager
def write_aside(path: Path) -> Iterator[Path]:
    """Yield a new empty file in the directory of `path`, which it replaces at the end. Directories are made."""
    try:
        with saving.write_aside(path) as part:
            yield part
    except (OSError, sqlite3.Error) as error:
        raise ProfileError(
            f"Cannot write {path}: {error}. Check the rights and the free space of {path.parent}, "
            "or choose another place, then write again."
        ) from error
