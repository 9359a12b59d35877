"""The directories of entries: how they are kept in use, removed, and cleaned after a crash.

In: the path of an entry. Out: a lock that keeps it, or whether it is gone. Whoever reads or writes an entry has a
shared lock on its file `.use`; whoever removes it needs that lock alone, and moves the whole directory aside first. A
directory that was moved away between opening and locking is noticed by its inode, and opened again.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from openipu.errors import ArchiveError
from openipu.store.entry import MANIFEST, read_manifest
from openipu.store.locks import FileLock, take_lock
from openipu.store.plain_files import NotPlainError

USE, HOLD, WRITE = ".use", ".hold", ".write"

_KEY = re.compile(r"[0-9a-f]{64}")
_TRASH_PREFIX = ".removed-"
_ATTEMPTS = 1000  # to open an entry that others remove

Complain = Callable[[str], None]


def list_entries(directory: Path) -> list[Path]:
    """The paths of all entries, finished or not."""
    try:
        with os.scandir(directory) as found:
            return [
                Path(item.path) for item in found if _KEY.fullmatch(item.name) and item.is_dir(follow_symlinks=False)
            ]
    except OSError:
        return []


def keep_entry(path: Path, create: bool) -> FileLock | None:
    """Keep an entry from being removed. None if it is not there, and is not to be made."""
    if path.is_symlink():
        raise NotPlainError(errno.ELOOP, "an entry is not a symbolic link", path)
    for _ in range(_ATTEMPTS):
        if create:
            path.mkdir(mode=0o700, exist_ok=True)
        try:
            lock = take_lock(path / USE, shared=True)
        except FileNotFoundError:
            if create:
                continue  # removed in between
            return None
        assert lock is not None
        if lock.stands_for(path / USE):
            return lock
        lock.release()  # whoever removed the entry had the lock before us
    raise OSError(f"{path} is removed again and again")


def is_kept(path: Path) -> bool:
    """Does somebody use the entry at this moment?"""
    try:
        lock = take_lock(path / USE, wait=False)
    except OSError:
        return False
    if lock is None:
        return True
    lock.release()
    return False


def remove_entry(path: Path, complain: Complain) -> bool:
    """Take an entry away in one move, unless somebody uses it."""
    aside: Path | None = None
    lock: FileLock | None = None
    try:
        if path.is_symlink():
            path.unlink()
            return True
        try:
            lock = take_lock(path / USE, wait=False)
            if lock is None or not lock.stands_for(path / USE):
                return False
        except NotPlainError:
            pass  # nobody can have locked it
        aside = Path(tempfile.mkdtemp(dir=path.parent, prefix=_TRASH_PREFIX))
        os.rename(path, aside / path.name)
        return True
    except FileNotFoundError:
        return False
    except OSError as error:
        complain(f"{path} cannot be removed from the executable cache ({error.strerror}).")
        return False
    finally:
        if lock is not None:
            lock.release()
        if aside is not None:
            shutil.rmtree(aside, ignore_errors=True)


def sweep(directory: Path, complain: Complain) -> None:
    """Remove what a crash left behind: half-made entries, temporary files, parts that no manifest names."""
    for path in directory.glob(f"{_TRASH_PREFIX}*"):
        shutil.rmtree(path, ignore_errors=True)
    for path in list_entries(directory):
        if not os.path.exists(path / MANIFEST):
            remove_entry(path, complain)
        elif _find_strays(path):
            _remove_strays(path)


def measure_entry(path: Path) -> int:
    """Bytes of all files of an entry."""
    total = 0
    try:
        with os.scandir(path) as found:
            for item in found:
                total += item.stat(follow_symlinks=False).st_size
    except OSError:
        pass  # removed meanwhile
    return total


def read_use_time(path: Path) -> float:
    """When an entry was used last, in seconds as of `time.time`."""
    for candidate in (path / MANIFEST, path):
        try:
            return candidate.stat().st_mtime
        except OSError:
            continue
    return 0.0


def _find_strays(path: Path) -> list[Path]:
    try:
        manifest = read_manifest(path)
        named = {part.file for part in manifest.parts.values()} | {MANIFEST, USE, HOLD, WRITE}
        return [file for file in path.iterdir() if file.name not in named]
    except (OSError, ArchiveError):
        return []


def _remove_strays(path: Path) -> None:
    try:
        lock = take_lock(path / USE, wait=False)
    except OSError:
        return
    if lock is None:  # a writer may be about to name them
        return
    try:
        if lock.stands_for(path / USE):
            for file in _find_strays(path):
                file.unlink(missing_ok=True)
    except OSError:
        pass  # the next sweep tries again
    finally:
        lock.release()
