"""Files that openipu writes and reads back: a zip with JSON and tensors, and no pickle of openipu's own.

In: a kind of file, JSON values, named tensors, and blobs that belong to the caller. Out: one file, written whole or not
at all; read back with checks of kind and version. A blob is handed over as bytes: only its owner knows what it is.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import torch

from openipu import __version__
from openipu.errors import ArchiveError
from openipu.files.documents import parse_json
from openipu.files.origin import Origin
from openipu.files.saving import PRIVATE, write_aside
from openipu.files.zips import read_zip
from openipu.graph.serial.tensors import pack_tensors, unpack_tensors

_METADATA = "metadata.json"
_TENSORS = "tensors.bin"


@dataclass(frozen=True)
class Archive:
    """What one file holds."""

    kind: str
    values: Mapping[str, Any]
    tensors: Mapping[str, torch.Tensor] = field(default_factory=dict)
    blobs: Mapping[str, bytes] = field(default_factory=dict)
    version: str = __version__  # of openipu, which wrote it


class _Metadata(msgspec.Struct, frozen=True):
    kind: str
    version: str
    values: dict[str, Any]


def write_archive(path: Path, archive: Archive) -> None:
    """Write a file; a reader never sees half of it."""
    metadata = {"kind": archive.kind, "version": archive.version, "values": archive.values}
    with write_aside(path, mode=PRIVATE) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr(_METADATA, json.dumps(metadata, indent=1, allow_nan=False))
        for name, content in _list_blobs(archive):
            # Numbers hardly shrink, and those that do, such as zeros, would look like a bomb to a reader.
            made.writestr(name, content, zipfile.ZIP_DEFLATED if name.endswith(".json") else zipfile.ZIP_STORED)


def _list_blobs(archive: Archive) -> Iterator[tuple[str, bytes]]:
    if archive.tensors:
        yield _TENSORS, pack_tensors(archive.tensors)
    yield from archive.blobs.items()


def read_archive(path: Path, kind: str) -> Archive:
    """Read a file of this kind that this version of openipu wrote."""
    if not path.exists():
        raise ArchiveError(f"There is no file {path}.")
    origin = Origin(str(path), ArchiveError, "Write the file again with this version of openipu.")
    members = read_zip(path, origin)
    if _METADATA not in members:
        raise origin.fail(f"is damaged, or was not written by openipu: it has no {_METADATA}")
    metadata = parse_json(members.pop(_METADATA), _Metadata, origin.within(_METADATA))
    if metadata.kind != kind:
        raise origin.fail(f"holds {metadata.kind!r}, not {kind!r}")
    if metadata.version != __version__:
        raise origin.fail(f"was written by openipu {metadata.version}, and this is {__version__}")
    content = members.pop(_TENSORS, None)
    try:
        tensors = {} if content is None else unpack_tensors(content)
    except ArchiveError as error:
        raise origin.fail(f"is damaged: {error}") from error
    return Archive(kind, metadata.values, tensors, members)
