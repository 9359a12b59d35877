"""A private folder for one compilation.

In: the store that its result goes to. Out: a folder that nobody but the user can look into or write to, below the
user's own cache, which is removed when it is closed. What a compilation that was killed has left is removed by the next
one. Nothing that a compiler reads or writes lies in the system's temporary folder, where others could have put it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import weakref
from pathlib import Path

from openipu.errors import ArchiveError
from openipu.store import FileLock, Store, explain_openness, hold_file, take_lock

FOLDER = "scratch"

_PREFIX = "build-"
_USE = ".use"  # locked, shared, by whoever works in a folder
_DOOR = ".door"  # locked alone while folders are made and swept


class Scratch:
    """A folder that exists until `close`, or until it is forgotten."""

    def __init__(self, path: Path, lock: FileLock) -> None:
        self.path = path
        self.close = weakref.finalize(self, _close, path, lock, os.getpid())

    def make_folder(self, name: str) -> Path:
        """A folder inside, as private."""
        made = self.path / name
        made.mkdir(mode=0o700, exist_ok=True)
        return made


def open_scratch(store: Store) -> Scratch:
    """A new folder below the store; where that is not the user's own, in the temporary folder under a random name.

    ArchiveError if the user's store has a place for such folders that is not private.
    """
    base = store.directory / FOLDER
    try:
        store.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        exposed = store.exposure is not None
        if not exposed:
            base.mkdir(mode=0o700, exist_ok=True)
    except OSError:
        exposed = not os.path.lexists(base)  # nothing can be written there; or it is not a directory
    if exposed:
        return _lock(Path(tempfile.mkdtemp(prefix="openipu-")))
    reason = explain_openness(base)
    if reason is not None:
        raise ArchiveError(f"Nothing is compiled in {base}: {reason}. Remove it; it is made again.")
    with hold_file(base / _DOOR):
        _sweep(base)
        return _lock(Path(tempfile.mkdtemp(dir=base, prefix=_PREFIX)))


def keep_scratch(path: Path) -> FileLock:
    """For the compiling process: the folder is in use for as long as it lives."""
    lock = take_lock(path / _USE, shared=True)
    assert lock is not None
    return lock


def _lock(path: Path) -> Scratch:
    return Scratch(path, keep_scratch(path))


def _sweep(base: Path) -> None:
    """Remove the folders that nobody works in any more."""
    for path in base.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = take_lock(path / _USE, wait=False)
            if lock is not None:
                shutil.rmtree(path, ignore_errors=True)
                lock.release()


def _close(path: Path, lock: FileLock, owner: int) -> None:
    if os.getpid() == owner:  # and no child that was forked from it
        shutil.rmtree(path, ignore_errors=True)
    lock.release()
