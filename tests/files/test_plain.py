"""Plain files: what is no file, too large or not text is refused with a name and advice, and nothing blocks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openipu.errors import OptionError
from openipu.files.origin import Origin
from openipu.files.plain import read_bytes, read_text

ORIGIN = Origin("The list", OptionError, "Write it again.")


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_text("ümlaut", encoding="utf-8-sig")
    assert read_text(path, ORIGIN, 100) == "ümlaut"
    assert read_bytes(path, ORIGIN, 10).endswith(b"mlaut")


def test_a_larger_file_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_bytes(bytes(101))
    with pytest.raises(OptionError, match=r"The list has 101 bytes, and at most 100 are read\. Write it again\."):
        read_bytes(path, ORIGIN, 100)


def test_a_fifo_is_refused_and_does_not_block(tmp_path: Path) -> None:
    path = tmp_path / "list"
    os.mkfifo(path)
    with pytest.raises(OptionError, match="is a FIFO, and no file"):
        read_bytes(path, ORIGIN, 100)


@pytest.mark.parametrize(("path", "what"), [("/dev/zero", "a device"), ("/tmp", "a directory")])
def test_what_is_no_file_is_named(path: str, what: str) -> None:
    with pytest.raises(OptionError, match=f"is {what}, and no file"):
        read_bytes(Path(path), ORIGIN, 100)


@pytest.mark.parametrize("path", ["absent", "zero\0byte", "x" * 5000])
def test_a_path_that_leads_nowhere_is_one_error(path: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"The list cannot be read: .*\. Write it again\."):
        read_bytes(tmp_path / path, ORIGIN, 100)


def test_another_encoding_is_named(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_bytes("ümlaut".encode("latin-1"))
    with pytest.raises(OptionError, match="is not UTF-8 text"):
        read_text(path, ORIGIN, 100)
