"""One entry of the store: a directory with a manifest and named parts.

In: the directory of an entry. Out: an `Entry` whose parts were compared with the checksums of the manifest. The
manifest is replaced in one move and names the files that belong to it, so that a reader sees an old entry or a new one,
never a mixture. Nothing is unpickled, and no file outside the directory is read.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from openipu.errors import ArchiveError
from openipu.files.documents import parse_json
from openipu.files.origin import Origin
from openipu.saving import PART_SUFFIX, PRIVATE, save_bytes
from openipu.store.locks import FileLock
from openipu.store.plain_files import NotPlainError, open_own, read_own

FORMAT = 1
MANIFEST = "manifest"  # a line with the checksum of the rest, then JSON

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Part:
    """What is to be stored under a name: bytes, or a file that is copied. `native`: machine code that is loaded."""

    content: bytes | Path
    native: bool = False


@dataclass(frozen=True, slots=True)
class PartRecord:
    """A line of the manifest."""

    file: str
    size_bytes: int
    sha256: str
    native: bool


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an entry says of itself."""

    key: str
    created_seconds: float
    description: Mapping[str, Any]
    parts: Mapping[str, PartRecord]

    @property
    def size_bytes(self) -> int:
        return sum(part.size_bytes for part in self.parts.values())


class _Body(msgspec.Struct, frozen=True):
    """The JSON of a manifest."""

    format: int
    key: str
    created_seconds: float
    description: dict[str, Any]
    parts: dict[str, PartRecord]


class Entry:
    """An entry that was checked and is in use: it is not evicted until `close`, or until it is forgotten."""

    def __init__(self, directory: Path, manifest: Manifest, lock: FileLock, exposure: str | None) -> None:
        self._directory = directory
        self._manifest = manifest
        self._exposure = exposure
        self._close = weakref.finalize(self, lock.release)

    @property
    def key(self) -> str:
        return self._manifest.key

    @property
    def description(self) -> Mapping[str, Any]:
        return self._manifest.description

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parts that may be used here: native ones only in a directory of the user's own."""
        parts = self._manifest.parts
        return tuple(name for name, part in parts.items() if not part.native or self._exposure is None)

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def find(self, name: str) -> Path:
        """The file of a part, as it was checked."""
        part = self._manifest.parts[name]
        if part.native and self._exposure is not None:
            raise ArchiveError(f"Native code is not loaded from the cache: {self._exposure}.")
        return self._directory / part.file

    def read(self, name: str) -> bytes:
        """The content of a part."""
        return read_own(self.find(name))

    def close(self) -> None:
        """Let the entry be evicted."""
        self._close()


def check_name(name: str) -> str:
    """A name of a part that is also a plain file name."""
    if _NAME.fullmatch(name) is None or name == MANIFEST or name.endswith(PART_SUFFIX):
        raise ArchiveError(f"A part of a cache entry cannot be called {name!r}: use letters, digits, '.', '_' and '-'.")
    return name


def check_key(key: str) -> str:
    if _DIGEST.fullmatch(key) is None:
        raise ArchiveError(f"A key of the cache has 64 hexadecimal digits; {key!r} has not. Use make_key.")
    return key


def write_part(directory: Path, name: str, part: Part) -> PartRecord:
    """Put a part into the directory of its entry. The file's name holds its checksum: old content is never touched."""
    content = part.content.read_bytes() if isinstance(part.content, Path) else part.content
    digest = hashlib.sha256(content).hexdigest()
    stem, dot, suffix = check_name(name).partition(".")
    record = PartRecord(f"{stem}.{digest[:12]}{dot}{suffix}", len(content), digest, part.native)
    _replace_file(directory / record.file, content)
    return record


def write_manifest(directory: Path, manifest: Manifest) -> None:
    body = {
        "format": FORMAT,
        "key": manifest.key,
        "created_seconds": manifest.created_seconds,
        "description": dict(manifest.description),
        "parts": {
            name: {"file": part.file, "size_bytes": part.size_bytes, "sha256": part.sha256, "native": part.native}
            for name, part in manifest.parts.items()
        },
    }
    _replace_file(directory / MANIFEST, seal_manifest(body))


def read_manifest(directory: Path) -> Manifest:
    """The manifest of an entry; FileNotFoundError if there is none, ArchiveError if it cannot be believed."""
    try:
        content = read_own(directory / MANIFEST)
    except NotPlainError as error:
        raise ArchiveError(f"the manifest of {directory} is not believed: {error.strerror}") from error
    checksum, _, text = content.partition(b"\n")
    if checksum != hashlib.sha256(text).hexdigest().encode():
        raise ArchiveError(f"the manifest of {directory} is not what was written")
    body = parse_json(text, _Body, Origin(f"the manifest of {directory}", ArchiveError, "It is written again."))
    if body.format != FORMAT:
        raise ArchiveError(f"{directory} has format {body.format}, and this openipu reads {FORMAT}")
    if body.key != directory.name:
        raise ArchiveError(f"{directory} was written for {body.key}")
    for name, part in body.parts.items():
        check_name(name)
        check_name(part.file)
    return Manifest(body.key, body.created_seconds, body.description, body.parts)


def check_parts(directory: Path, manifest: Manifest) -> None:
    """Compare every part with its checksum; ArchiveError names the first that differs."""
    for name, part in manifest.parts.items():
        check_part(directory, name, part)


def check_part(directory: Path, name: str, part: PartRecord) -> None:
    """Compare one part with its checksum."""
    path = directory / part.file
    try:
        with os.fdopen(open_own(path, native=part.native), "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except NotPlainError as error:
        raise ArchiveError(f"part {name} of {directory} is not believed: {error.strerror}") from error
    except FileNotFoundError as error:
        raise ArchiveError(f"part {name} of {directory} is missing") from error
    except OSError as error:
        raise ArchiveError(f"part {name} of {directory} cannot be read ({error.strerror})") from error
    if found != part.sha256:
        raise ArchiveError(f"part {name} of {directory} is not what was written")


def seal_manifest(body: Mapping[str, Any]) -> bytes:
    """The content of a manifest's file."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    return b"\n".join((hashlib.sha256(text).hexdigest().encode(), text))


def _replace_file(path: Path, content: bytes) -> None:
    # Not durable: what a crash of the machine damages has the wrong checksum, and is made again.
    save_bytes(path, content, mode=PRIVATE, durable=False)
