"""Plain files as bytes and text.

In: a path and the largest size to accept. Out: what the file holds. Directories, FIFOs, sockets and devices are refused
before anything waits for them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from openipu.files.origin import Origin

MIB = 1 << 20

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_FLAGS = os.O_RDONLY
for _flag in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"):
    _FLAGS |= getattr(os, _flag, 0)


@contextmanager
def open_plain(path: Path, origin: Origin, largest: int) -> Iterator[BinaryIO]:
    """The file, open for reading, if it is a plain one of at most so many bytes."""
    try:
        _check(os.stat(path), origin, largest)  # opening a device may already do something
        handle = os.open(path, _FLAGS)
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        raise origin.fail(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    with os.fdopen(handle, "rb") as file:
        _check(os.fstat(handle), origin, largest)
        yield file


def read_bytes(path: Path, origin: Origin, largest: int) -> bytes:
    """All of a file."""
    with open_plain(path, origin, largest) as file:
        try:
            content = file.read(largest + 1)
        except OSError as error:
            raise origin.fail(f"cannot be read: {error.strerror}") from error
    if len(content) > largest:  # it has grown meanwhile
        raise origin.fail(_say_size(len(content), largest))
    return content


def read_text(path: Path, origin: Origin, largest: int) -> str:
    """All of a file in UTF-8, with or without a byte order mark."""
    try:
        return read_bytes(path, origin, largest).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise origin.fail(f"is not UTF-8 text: {error}") from error


def _check(found: os.stat_result, origin: Origin, largest: int) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise origin.fail(f"is {_KINDS.get(stat.S_IFMT(found.st_mode), 'something else')}, and no file")
    if found.st_size > largest:
        raise origin.fail(_say_size(found.st_size, largest))


def _say_size(found: int, largest: int) -> str:
    return f"has {found:,} bytes, and at most {largest:,} are read"
