"""Files that openipu writes and reads back: a zip with JSON and tensors, and no pickle of openipu's own.

In: a kind of file, JSON values, named tensors, and blobs that belong to the caller. Out: one file, written whole or not
at all; read back with checks of kind and version. A blob is handed over as bytes: only its owner knows what it is.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from openipu import __version__
from openipu.errors import ArchiveError
from openipu.graph.serial import pack_tensors, unpack_tensors
from openipu.saving import PRIVATE, write_aside

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


def write_archive(path: Path, archive: Archive) -> None:
    """Write a file; a reader never sees half of it."""
    metadata = {"kind": archive.kind, "version": archive.version, "values": archive.values}
    with write_aside(path, mode=PRIVATE) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr(_METADATA, json.dumps(metadata, indent=1))
        if archive.tensors:
            made.writestr(_TENSORS, pack_tensors(archive.tensors))
        for name, content in archive.blobs.items():
            made.writestr(name, content)


def read_archive(path: Path, kind: str) -> Archive:
    """Read a file of this kind that this version of openipu wrote."""
    if not path.is_file():
        raise ArchiveError(f"There is no file {path}.")
    try:
        with zipfile.ZipFile(path) as found:
            metadata = json.loads(found.read(_METADATA))
            if not isinstance(metadata, dict):
                raise ValueError("its description is no dictionary")
            names = set(found.namelist())
            tensors: dict[str, torch.Tensor] = {}
            if _TENSORS in names:
                tensors = unpack_tensors(found.read(_TENSORS))
            blobs = {name: found.read(name) for name in names - {_METADATA, _TENSORS}}
    except (zipfile.BadZipFile, zlib.error, KeyError, ValueError, OSError) as error:
        raise ArchiveError(f"{path} is damaged or was not written by openipu ({error}).") from error
    if metadata.get("kind") != kind:
        raise ArchiveError(f"{path} holds {metadata.get('kind')!r}, not {kind!r}.")
    if metadata.get("version") != __version__:
        raise ArchiveError(
            f"{path} was written by openipu {metadata.get('version')}, and this is {__version__}: write it again."
        )
    return Archive(kind, metadata["values"], tensors, blobs)
