"""Zip files.

In: a path and limits. Out: the content of every member by name. What the directory of the zip promises is checked
before anything is unpacked: number, names, sizes and compression of members.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from openipu.files.origin import Origin
from openipu.files.plain import MIB, open_plain

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_LONGEST_DIRECTORY = MIB
_ENCRYPTED = 0x1
_DAMAGE = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    struct.error,
    OSError,
    EOFError,
    IndexError,
    ValueError,
    OverflowError,
    NotImplementedError,
    RuntimeError,
)


@dataclass(frozen=True, slots=True)
class ZipLimits:
    """What is accepted. Unpacked, a zip may have `free_bytes`, and beyond them `ratio` times its own size."""

    largest: int = 256 * 1024 * MIB
    members: int = 32
    free_bytes: int = 64 * MIB
    ratio: int = 32


def read_zip(
    path: Path,
    origin: Origin,
    limits: ZipLimits = ZipLimits(),  # noqa: B008 (frozen)
    *,
    only: Collection[str] | None = None,
) -> dict[str, bytes]:
    """All members of a zip, whose names are plain file names; or those of `only` that it has, whatever else it has."""
    with open_plain(path, origin, limits.largest) as file:
        size = file.seek(0, io.SEEK_END)
        try:
            bounded = _BoundedFile(file)
            with zipfile.ZipFile(bounded) as found:
                bounded.largest_read = None
                members = [entry for entry in found.infolist() if only is None or entry.filename in only]
                _check_members(members, size, origin, limits)
                return {member.filename: _read_member(found, member) for member in members}
        except _DAMAGE as error:
            raise origin.fail(f"cannot be read as a zip: it is damaged, or something else: {error}") from error


class _BoundedFile(io.RawIOBase):
    """A file that refuses to hand out a directory of millions of members while a zip is opened."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.largest_read: int | None = _LONGEST_DIRECTORY

    def read(self, size: int = -1) -> bytes:
        if self.largest_read is None:
            return self._file.read(size)
        found = self._file.read(min(size, self.largest_read + 1) if size >= 0 else self.largest_read + 1)
        if len(found) > self.largest_read:
            raise zipfile.BadZipFile("its list of members is too long")
        return found

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def _check_members(members: list[zipfile.ZipInfo], size: int, origin: Origin, limits: ZipLimits) -> None:
    names = [member.filename for member in members]
    if len(names) > limits.members:
        raise origin.fail(f"has {len(names)} members, and at most {limits.members} are read")
    if len(set(names)) != len(names):
        raise origin.fail("has several members of one name")
    for member in members:
        if _NAME.fullmatch(member.filename) is None:
            raise origin.fail(f"has a member {member.filename!r}, which is not a plain name")
        if member.flag_bits & _ENCRYPTED:
            raise origin.fail(f"has an encrypted member {member.filename}")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise origin.fail(f"has a member {member.filename} that is compressed in an unknown way")
    packed, unpacked = (sum(getattr(member, name) for member in members) for name in ("compress_size", "file_size"))
    if packed > size:
        raise origin.fail("is damaged: its members overlap")
    if unpacked > limits.free_bytes + limits.ratio * size:
        raise origin.fail(f"has {size:,} bytes and claims to unpack to {unpacked:,}, which is too much")


def _read_member(found: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    with found.open(member) as file:
        content = file.read(member.file_size + 1)
    if len(content) != member.file_size:
        raise zipfile.BadZipFile(f"{member.filename} has not the size that is promised")
    return content
