"""A directory of entries, shared by processes.

In: a key, parts, a description. Out: entries that were checked. Each entry is one directory, named by its key:

    manifest        what belongs to the entry, with checksums; replaced in one move
    <parts>         files whose names hold their checksum
    .use            locked, shared, by whoever reads or writes; locked alone by whoever removes the entry
    .hold           locked alone by whoever makes the content, so that one process compiles and the others wait
    .write          locked alone while the manifest is exchanged

A cache that cannot be written, or an entry that is damaged, costs time and a warning, never a run.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from openipu.errors import ArchiveError
from openipu.store.directories import (
    HOLD,
    WRITE,
    is_kept,
    keep_entry,
    list_entries,
    measure_entry,
    read_use_time,
    remove_entry,
    sweep,
)
from openipu.store.entry import (
    MANIFEST,
    Entry,
    Manifest,
    Part,
    check_key,
    check_part,
    check_parts,
    read_manifest,
    write_manifest,
    write_part,
)
from openipu.store.libraries import LIBRARIES, explain_unusable
from openipu.store.location import choose_directory, choose_limit_bytes, explain_exposure
from openipu.store.locks import FileLock, take_lock
from openipu.store.plain_files import NotPlainError
from openipu.store.records import Finding, Removal, Summary

Parts = Mapping[str, Part | bytes]

_logger = logging.getLogger("openipu")
_warned: set[str] = set()


class Store:
    """Entries by key. Made by `open_store`; holds no files open by itself."""

    def __init__(self, directory: Path, limit_bytes: int | None) -> None:
        self.directory = directory
        self.limit_bytes = limit_bytes

    @property
    def exposure(self) -> str | None:
        """Why native code is not kept here; None if it is."""
        return explain_exposure(self.directory) if os.path.exists(self.directory) else None

    def read(self, key: str) -> Entry | None:
        """An entry whose parts are all as they were written. A damaged one is removed, and None comes back."""
        path = self.directory / check_key(key)
        try:
            return self._read(path) if os.path.lexists(path / MANIFEST) else None
        except OSError as error:
            _warn_once(f"The executable cache at {self.directory} cannot be read ({error}): nothing is taken from it.")
            return None

    def write(self, key: str, parts: Parts, description: Mapping[str, Any] | None = None) -> Entry | None:
        """Add parts to an entry, or replace them; its other parts stay. Then old entries go, where the limit is passed.

        None, and one warning, if the directory cannot be written. Native parts are left out where others could have
        written to the directory.
        """
        path = self.directory / check_key(key)
        given = {name: part if isinstance(part, Part) else Part(part) for name, part in parts.items()}
        try:
            self._make_directory()
            if any(part.native for part in given.values()) and (reason := self.exposure):
                _warn_once(f"Native code is not kept in the executable cache: {reason}.")
                given = {name: part for name, part in given.items() if not part.native}
            lock = keep_entry(path, create=True)
            assert lock is not None
            try:
                manifest = _exchange(path, given, description)
            except BaseException:
                lock.release()
                raise
        except OSError as error:
            _warn_once(f"The executable cache at {self.directory} cannot be written ({error}): nothing is kept.")
            return None
        entry = self._open(path, manifest, lock)
        if self.limit_bytes is not None:
            with contextlib.suppress(OSError):  # of entries of somebody else
                self.prune(self.limit_bytes)
        return entry

    @contextlib.contextmanager
    def hold(self, key: str, wait: bool = True) -> Iterator[bool]:
        """Let one process or thread at a time make the content of a key.

        Yields whether it is this one's turn: False only if another one has it, and `wait` is off.
        """
        path = self.directory / check_key(key)
        kept: FileLock | None = None
        held: FileLock | None = None
        try:
            try:
                self._make_directory()
                kept = keep_entry(path, create=True)
                held = take_lock(path / HOLD, wait=False)
                if held is None and wait:
                    _logger.info("Waiting for another process that compiles the same program.")
                    held = take_lock(path / HOLD)
                free = held is not None
            except OSError as error:
                _warn_once(f"The executable cache at {self.directory} cannot be locked ({error}).")
                free = True
            yield free
        finally:
            if held is not None:
                held.release()
            if kept is not None:
                kept.release()
                if not os.path.exists(path / MANIFEST):  # nothing was made
                    remove_entry(path, _warn_once)

    def obtain(
        self, key: str, make: Callable[[], Parts], description: Mapping[str, Any] | None = None
    ) -> tuple[Entry | None, bool]:
        """The entry of a key, made by one process if it is not there; also whether it was made just now."""
        entry = self.read(key)
        if entry is not None:
            return entry, False
        with self.hold(key):
            entry = self.read(key)
            if entry is not None:
                return entry, False
            return self.write(key, make(), description), True

    def list(self) -> tuple[Summary, ...]:
        """All entries, the one used last first. Damaged ones are found by `verify`."""
        found = []
        for path in list_entries(self.directory):
            try:
                manifest = read_manifest(path)
            except (OSError, ArchiveError):
                continue
            parts = {name: part.size_bytes for name, part in manifest.parts.items()}
            found.append(
                Summary(
                    path.name,
                    manifest.description,
                    parts,
                    measure_entry(path),
                    manifest.created_seconds,
                    read_use_time(path),
                    is_kept(path),
                )
            )
        return tuple(sorted(found, key=lambda entry: entry.used_seconds, reverse=True))

    def size(self) -> int:
        """Bytes of all entries, as the directory holds them."""
        return sum(measure_entry(path) for path in list_entries(self.directory))

    def prune(self, limit_bytes: int | None = None, older_than_seconds: float | None = None) -> Removal:
        """Remove what was not used for so long, then the least recently used until the rest is within the limit."""
        sweep(self.directory, _warn_once)
        aged = sorted((read_use_time(path), path) for path in list_entries(self.directory))
        sizes = {path: measure_entry(path) for _, path in aged}
        total, now = sum(sizes.values()), time.time()
        removed = freed = kept = 0
        for used, path in aged:
            expired = older_than_seconds is not None and now - used > older_than_seconds
            if not expired and (limit_bytes is None or total <= limit_bytes):
                continue
            if remove_entry(path, _warn_once):
                removed, freed, total = removed + 1, freed + sizes[path], total - sizes[path]
            else:
                kept += 1
        return Removal(removed, freed, kept)

    def clear(self) -> Removal:
        """Remove every entry that no process uses."""
        return self.prune(limit_bytes=-1)

    def remove(self, key: str) -> bool:
        """Remove one entry; False if a process uses it, or it is not there."""
        return remove_entry(self.directory / check_key(key), _warn_once)

    def verify(self) -> tuple[Finding, ...]:
        """Compare all entries with their checksums; load native libraries. Damaged ones are removed and returned."""
        damaged = []
        for path in list_entries(self.directory):
            try:
                manifest = read_manifest(path)
                check_parts(path, manifest)
                self._check_libraries(path, manifest)
            except OSError:
                continue  # being made, or removed meanwhile, or of somebody else
            except ArchiveError as error:
                damaged.append(Finding(path.name, str(error)))
                remove_entry(path, _warn_once)
        return tuple(damaged)

    def _check_libraries(self, path: Path, manifest: Manifest) -> None:
        """ArchiveError if a native library cannot be loaded. None is loaded where others could have written."""
        described = manifest.description.get(LIBRARIES)
        if not isinstance(described, dict) or self.exposure or explain_exposure(path):
            return
        for name, sizes in described.items():
            part = manifest.parts.get(name)
            reason = explain_unusable(path / part.file, sizes) if part is not None and part.native else None
            if reason is not None:
                raise ArchiveError(f"{name}: {reason}")

    def _read(self, path: Path) -> Entry | None:
        try:
            lock = keep_entry(path, create=False)
        except NotPlainError as error:
            _warn_once(f"The executable cache has something else than an entry, which is removed: {error}.")
            remove_entry(path, _warn_once)
            return None
        if lock is None:
            return None
        try:
            manifest = read_manifest(path)
            check_parts(path, manifest)
        except FileNotFoundError:
            lock.release()
            return None
        except ArchiveError as error:
            lock.release()
            _warn_once(f"The executable cache has a damaged entry, which is removed and made again: {error}.")
            remove_entry(path, _warn_once)
            return None
        except BaseException:
            lock.release()
            raise
        with contextlib.suppress(OSError):  # of a store that can only be read
            os.utime(path / MANIFEST)
        return self._open(path, manifest, lock)

    def _open(self, path: Path, manifest: Manifest, lock: FileLock) -> Entry:
        reason = self.exposure or explain_exposure(path)
        if reason and any(part.native for part in manifest.parts.values()):
            _warn_once(f"Native code is not loaded from the executable cache: {reason}.")
        return Entry(path, manifest, lock, reason)

    def _make_directory(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)


def open_store(directory: str | Path | None = None, limit_bytes: int | None = None) -> Store:
    """The store of a directory, else the user's own. Nothing is made until something is written."""
    return Store(choose_directory(directory), choose_limit_bytes() if limit_bytes is None else limit_bytes)


def _exchange(path: Path, parts: Mapping[str, Part], description: Mapping[str, Any] | None) -> Manifest:
    """Write parts and a new manifest that names them, beside what the entry had and is still whole."""
    guard = take_lock(path / WRITE)
    assert guard is not None
    try:
        try:
            present = read_manifest(path)
        except (FileNotFoundError, ArchiveError):
            present = Manifest(path.name, time.time(), {}, {})
        whole = {}
        for name, record in present.parts.items():
            with contextlib.suppress(ArchiveError):
                check_part(path, name, record)
                whole[name] = record
        written = {name: write_part(path, name, part) for name, part in parts.items()}
        described = present.description if description is None else {**present.description, **description}
        manifest = replace(present, description=described, parts={**whole, **written})
        write_manifest(path, manifest)
        return manifest
    finally:
        guard.release()


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        _logger.warning("%s", message)
