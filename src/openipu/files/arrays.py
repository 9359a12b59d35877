"""Arrays by name, as `numpy.savez` writes them.

In: a path. Out: {name: array}. Nothing is unpickled, and what the zip's directory promises is checked before anything
is unpacked.
"""

from __future__ import annotations

import io
import tokenize
import zipfile
import zlib
from pathlib import Path

import numpy as np

from openipu.files.origin import Origin
from openipu.files.plain import MIB, open_plain

_LARGEST = 64 * 1024 * MIB
_MOST_ARRAYS = 10_000
_FREE_BYTES, _RATIO = 256 * MIB, 64  # unpacked: so much, and beyond it so many times the file's own size
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    ValueError,
    KeyError,
    OverflowError,
    NotImplementedError,
    MemoryError,
    SyntaxError,  # numpy reads the header of an array as an expression
    tokenize.TokenError,
)


def read_arrays(path: Path, origin: Origin) -> dict[str, np.ndarray]:
    """All arrays of an .npz file."""
    with open_plain(path, origin, _LARGEST) as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        try:
            with zipfile.ZipFile(file) as found:
                members = found.infolist()
                unpacked = sum(member.file_size for member in members)
                if len(members) > _MOST_ARRAYS:
                    raise origin.fail(f"has {len(members):,} arrays, and at most {_MOST_ARRAYS:,} are read")
                if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in members):
                    raise origin.fail("has an array that is compressed in an unknown way")
                if unpacked > _FREE_BYTES + _RATIO * size:
                    raise origin.fail(f"has {size:,} bytes and would unpack to {unpacked:,}: it is not read")
                return {member.filename.removesuffix(".npy"): _read_member(found, member) for member in members}
        except _DAMAGE as error:
            raise origin.fail(f"is damaged, or is no .npz file of arrays of numbers: {error}") from error
        except RuntimeError as error:  # a member that needs a password
            raise origin.fail(f"cannot be unpacked: {error}") from error


def _read_member(found: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with found.open(member) as stream:
        content = io.BytesIO(stream.read(member.file_size))
    version = np.lib.format.read_magic(content)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(content)
    promised = dtype.itemsize
    for length in shape:
        promised *= length
    if dtype.hasobject or min(shape, default=0) < 0 or promised > member.file_size:
        raise ValueError(f"{member.filename} is not an array of numbers that its {member.file_size} bytes could hold")
    content.seek(0)
    array: np.ndarray = np.lib.format.read_array(content, allow_pickle=False)
    return array
