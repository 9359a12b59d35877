"""Opening files of the cache, whatever somebody has put there in their place.

In: the path of a file in an entry. Out: an open descriptor of a plain file that the user, or whoever owns the entry,
has put there; else a `NotPlainError` that says what is wrong. A link is not followed, and a pipe or a device is not
waited for.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_SAFELY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0)


class NotPlainError(OSError):
    """What lies there was not written by the cache."""


def open_plain(path: Path, flags: int = _READ) -> int:
    """A descriptor of a plain file; the file is made if the flags say so, for the user alone."""
    try:
        descriptor = os.open(path, flags | _SAFELY, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.ENODEV, errno.EISDIR):
            raise NotPlainError(error.errno, "it is a link, a device or a directory, not a plain file", path) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotPlainError(errno.EINVAL, "it is not a plain file", path)
    return descriptor


def open_own(path: Path, *, native: bool = False) -> int:
    """A descriptor for reading a file of an entry: it has the owner of its directory, or it is root's.

    `native`: nobody else may write to it either.
    """
    descriptor = open_plain(path)
    found, above = os.fstat(descriptor), path.parent.stat()
    reason = None
    if found.st_uid not in (0, above.st_uid):
        reason = f"it belongs to user {found.st_uid}, and its directory to user {above.st_uid}"
    elif native and hasattr(os, "geteuid") and found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        reason = "others may write to it"
    if reason is not None:
        os.close(descriptor)
        raise NotPlainError(errno.EPERM, reason, path)
    return descriptor


def read_own(path: Path) -> bytes:
    """The content of a file of an entry."""
    with os.fdopen(open_own(path), "rb") as file:
        return file.read()
