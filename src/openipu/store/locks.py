"""Locks between processes that a crash releases by itself.

In: a path. Out: an open, locked file, or nothing where somebody else has it. The locks are the system's own (flock):
they belong to an open file, so that threads exclude each other as well, and they end with the process.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from openipu.store.plain_files import open_plain

if sys.platform != "win32":  # there, processes compile side by side, which costs time but no correctness
    import fcntl

_NO_LOCKS_HERE = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF)


class FileLock:
    """A lock that is held until `release`, or until the process ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor
        self._owner = os.getpid()

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        # A forked child has the same open file. It must not unlock what its parent holds, and the parent cannot unlock
        # by closing alone while the child lives.
        if sys.platform != "win32" and os.getpid() == self._owner:
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)

    def stands_for(self, path: Path) -> bool:
        """Is the file at `path` still the one that is locked?"""
        assert self._descriptor is not None
        try:
            found, own = path.stat(), os.fstat(self._descriptor)
        except FileNotFoundError:
            return False
        return (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino)


def take_lock(path: Path, *, shared: bool = False, wait: bool = True) -> FileLock | None:
    """Lock a file, and make it if need be. None: another one has it, and `wait` is off.

    Where a directory cannot be written, a shared lock is taken on the file as it is; FileNotFoundError if it is not.
    NotPlainError where something else lies there.
    """
    try:
        descriptor = open_plain(path, os.O_RDWR | os.O_CREAT)
    except PermissionError:
        if not shared:
            raise
        descriptor = open_plain(path, os.O_RDONLY)
    except OSError as error:
        if not shared or error.errno != errno.EROFS:
            raise
        descriptor = open_plain(path, os.O_RDONLY)
    if sys.platform == "win32":
        return FileLock(descriptor)
    operation = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
    try:
        fcntl.flock(descriptor, operation)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError as error:
        if error.errno not in _NO_LOCKS_HERE:
            os.close(descriptor)
            raise
        # A file system without locks: as on Windows.
    return FileLock(descriptor)


@contextlib.contextmanager
def hold_file(path: Path) -> Iterator[None]:
    """Let one process at a time in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = take_lock(path)
    assert lock is not None
    try:
        yield
    finally:
        lock.release()
