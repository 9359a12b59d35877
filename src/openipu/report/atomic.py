"""Files that are either old or new and complete, never half written.

In: the path that a file is to have. Out: a path beside it to write to, moved into place when all went well.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from openipu.errors import ProfileError


@contextmanager
def write_aside(path: Path) -> Iterator[Path]:
    """Yield a new empty file in the directory of `path`, which it replaces at the end. Directories are made."""
    part: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        os.close(handle)
        part = Path(name)
        yield part
        part.chmod(0o644)  # mkstemp makes private files; a report is to be shared
        os.replace(part, path)
    except (OSError, sqlite3.Error) as error:
        raise ProfileError(
            f"Cannot write {path}: {error}. Check the rights and the free space of {path.parent}, "
            "or choose another place, then write again."
        ) from error
    finally:
        if part is not None:
            part.unlink(missing_ok=True)
