"""Zips are read within limits: members, names, sizes and compression are looked at before anything is unpacked."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from openipu.errors import ArchiveError
from openipu.files.origin import Origin
from openipu.files.zips import ZipLimits, read_zip

MIB = 1 << 20


def read(path: Path, limits: ZipLimits = ZipLimits()) -> dict[str, bytes]:  # noqa: B008
    return read_zip(path, Origin(str(path), ArchiveError, "Write it again."), limits)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def make(*members: tuple[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
        path = tmp_path / "file.zip"
        with zipfile.ZipFile(path, "w", compression) as made:
            for name, content in members:
                made.writestr(name, content)
        return path

    return make


def test_members_come_back_by_name(write: Callable[..., Path]) -> None:
    assert read(write(("a.json", b"{}"), ("b.bin", bytes(1000)))) == {"a.json": b"{}", "b.bin": bytes(1000)}


@pytest.mark.parametrize("name", ["../a", "/etc/passwd", "a/b", "a\\b", ".hidden", "C:x", "a" * 200, "ä", "a/"])
def test_a_name_that_is_no_plain_name_is_refused(name: str, write: Callable[..., Path]) -> None:
    with pytest.raises(ArchiveError, match="not a plain name"):
        read(write((name, b"")))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused(write: Callable[..., Path]) -> None:
    with pytest.raises(ArchiveError, match="several members of one name"):
        read(write(("a", b"1"), ("a", b"2")))


def test_many_members_are_refused(write: Callable[..., Path]) -> None:
    with pytest.raises(ArchiveError, match="has 33 members"):
        read(write(*((f"m{number}", b"") for number in range(33))))


def test_a_directory_of_millions_is_refused_before_it_is_read(write: Callable[..., Path]) -> None:
    path = write(*((f"m{number}", b"") for number in range(25_000)), compression=zipfile.ZIP_STORED)
    with pytest.raises(ArchiveError, match="its list of members is too long"):
        read(path)


def test_a_bomb_is_refused_before_it_is_unpacked(write: Callable[..., Path]) -> None:
    path = write(("a", bytes(100 * MIB)))
    assert path.stat().st_size < MIB // 4
    with pytest.raises(ArchiveError, match="claims to unpack to 104,857,600, which is too much"):
        read(path)


def test_members_that_share_their_bytes_are_refused(write: Callable[..., Path]) -> None:
    path = write(("a", bytes(range(256)) * 64), ("b", b"2"), compression=zipfile.ZIP_STORED)
    content = bytearray(path.read_bytes())
    place = content.rindex(b"PK\x01\x02")  # the second member is given the size of the whole file
    struct.pack_into("<II", content, place + 20, len(content), len(content))
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match="overlap"):
        read(path)


def test_a_member_that_lies_about_its_size_is_refused(write: Callable[..., Path]) -> None:
    path = write(("a", bytes(1000)))
    content = bytearray(path.read_bytes())
    struct.pack_into("<I", content, content.rindex(b"PK\x01\x02") + 24, 2000)
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match="damaged"):
        read(path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_unusual_compression_is_refused(compression: int, write: Callable[..., Path]) -> None:
    with pytest.raises(ArchiveError, match="compressed in an unknown way"):
        read(write(("a", b"1"), compression=compression))


def test_an_encrypted_member_is_refused(write: Callable[..., Path]) -> None:
    path = write(("a", b"1"))
    content = bytearray(path.read_bytes())
    content[content.rindex(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match="encrypted"):
        read(path)


def test_every_truncation_is_one_error(write: Callable[..., Path]) -> None:
    path = write(("a.json", b'{"a": 1}'), ("b.bin", bytes(range(256))))
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ArchiveError, match="damaged"):
            read(path)


def test_every_flipped_bit_is_read_or_is_one_error(write: Callable[..., Path]) -> None:
    path = write(("a.json", b'{"a": 1}'), ("b.bin", b"12345678"))
    whole = path.read_bytes()
    errors = 0
    for place in range(len(whole) * 8):
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        path.write_bytes(io.BytesIO(flipped).getvalue())
        try:
            read(path)
        except ArchiveError:
            errors += 1
    assert errors > len(whole)
