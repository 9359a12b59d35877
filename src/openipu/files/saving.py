"""Files that are old and complete, or new and complete, never half written: the one way in which openipu saves.

In: the path that a file is to have, and its content. Out: the file, moved into place in one step when all of it is on
disk. Until then it lies beside its place under a private name, and is locked: when its writer is killed, the system
takes the lock away, and whoever saves into the same directory next removes what was left.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

if sys.platform != "win32":
    import fcntl

PART_SUFFIX = ".openipu-part"
SHARED, PRIVATE = 0o666, 0o600  # of a new file, less what the user's umask takes away

_DEVICES = ("/dev", "/dev/fd", "/proc/self/fd")
_PART = re.compile(r"\..+\.[0-9a-f]{8}" + re.escape(PART_SUFFIX))
_LONGEST_NAME = 80  # of the place, within the private name: file systems allow 255 bytes in all
_ATTEMPTS = 100  # to make a private file that others sweep away before it is locked


@contextlib.contextmanager
def write_aside(path: Path, *, mode: int = SHARED, durable: bool = True) -> Iterator[Path]:
    """Yield a new empty file in the directory of `path`, which it replaces at the end; on an error nothing changes.

    Directories are made. A file that is not `durable` survives a crash of its process, perhaps not one of the machine.
    """
    if _is_device(path):
        yield path
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    sweep_parts(path.parent)
    part, lock = _make_part(path, mode)
    try:
        yield part
        with contextlib.suppress(OSError):  # there is no older file, whose rights would stay
            os.chmod(part, path.stat().st_mode & 0o777)
        if durable:
            _flush(part)
        if sys.platform == "win32":  # there, an open file cannot be moved
            os.close(lock)
            lock = -1
        os.replace(part, path)
        if durable and sys.platform != "win32":
            with contextlib.suppress(OSError):  # a file system that knows no such thing; the file is whole in any case
                _flush(path.parent)
    finally:
        part.unlink(missing_ok=True)  # while it is locked: nobody else removes another file of this name
        if lock >= 0:
            os.close(lock)


def put_in_place(files: Sequence[Path], directory: Path) -> None:
    """Move whole files of one file system into a directory, in this order: what others read first comes last."""
    for file in files:
        _flush(file)
        os.replace(file, directory / file.name)


def save_bytes(path: Path, content: bytes, *, mode: int = SHARED, durable: bool = True) -> None:
    """Write a file as a whole."""
    with write_aside(path, mode=mode, durable=durable) as part:
        part.write_bytes(content)


def save_text(path: Path, text: str, *, mode: int = SHARED) -> None:
    """Write a text file as a whole, in UTF-8."""
    save_bytes(path, text.encode(), mode=mode)


def sweep_parts(directory: Path) -> int:
    """Remove what killed writers left in a directory, and say how many files that were. Files of live ones stay."""
    if sys.platform == "win32":  # without locks nobody knows who lives: leftovers stay, under their telling names
        return 0
    removed = 0
    try:
        with os.scandir(directory) as found:
            left = [item.path for item in found if _PART.fullmatch(item.name) and item.is_file(follow_symlinks=False)]
    except OSError:
        return 0
    for name in left:
        with contextlib.suppress(OSError):  # finished or swept meanwhile, or of another user
            descriptor = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an error: its writer lives
                os.unlink(name)
                removed += 1
            finally:
                os.close(descriptor)
    return removed


def _make_part(path: Path, mode: int) -> tuple[Path, int]:
    """A new file beside `path`, and the descriptor that keeps it locked."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    for _ in range(_ATTEMPTS):
        part = path.parent / f".{path.name[:_LONGEST_NAME]}.{secrets.token_hex(4)}{PART_SUFFIX}"
        try:
            descriptor = os.open(part, flags, mode)
        except FileExistsError:
            continue
        if _lock(descriptor) and part.exists():
            return part, descriptor
        os.close(descriptor)  # somebody swept it before it was locked
    raise OSError(f"every temporary file in {path.parent} is removed by somebody else")


def _lock(descriptor: int) -> bool:
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks: nobody can sweep there, either
    return True


def _is_device(path: Path) -> bool:
    """/dev/null, /dev/stdout and the like: they are written to as they are, and nothing may take their place."""
    return path.is_char_device() or str(path.absolute().parent) in _DEVICES


def _flush(path: Path) -> None:
    """Wait until the disk has it."""
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
