"""From C++ to a library: out of the cache, or compiled in a process of its own.

In: a source. Out: a `NativeProgram`, at once if the user's own cache has it, else when its `NativeBuild` is done. One
process compiles a source, and others that want the same one wait for it. Libraries are never taken from anywhere else
than the user's own cache.
"""

from __future__ import annotations

import json
import time
import weakref
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from openipu.errors import ArchiveError
from openipu.run.native.process import CompilerProcess
from openipu.run.native.scratch import Scratch, open_scratch
from openipu.store import Entry, Store, describe_build, describe_host, make_key, open_store

LIBRARY = "kernels.so"  # the part of a cache entry


class NotCompiledError(Exception):
    """Why there are no kernels; operators compute the same."""


@dataclass(frozen=True, eq=False)
class NativeProgram:
    """A compiled library. The entry is not evicted while it is in use."""

    store: Store
    entry: Entry
    scratch: Scratch | None = None  # with the store inside, where the user's own cannot be used

    @property
    def library(self) -> Path:
        """Its file."""
        return self.entry.find(LIBRARY)


@dataclass(frozen=True, eq=False)
class NativeJob:
    """A source that is to be compiled."""

    key: str
    name: str
    source: str


def make_native_key(facts: dict[str, Any]) -> str:
    """The key of a library that these facts describe, made by this openipu on this host, for any number of threads."""
    return make_key({**facts, "kind": "native", "build": describe_build(), "host": describe_host()})


def find_native(key: str, store: Store | None = None) -> NativeProgram | None:
    """The library of a key, if the cache has it."""
    store = store or open_store()
    entry = store.read(key)
    return None if entry is None or LIBRARY not in entry else NativeProgram(store, entry)


class NativeBuild:
    """A compilation in a process of its own, which the program waits for or goes on beside."""

    def __init__(self, job: NativeJob, *, background: bool) -> None:
        self._key = job.key
        self._scratch, self._store = _choose_places()
        job_file, self._log = self._scratch.path / "job.json", self._scratch.path / "log"
        job_file.write_text(json.dumps({**asdict(job), "background": background}))
        arguments = [str(job_file), str(self._store.directory)]
        self._process = CompilerProcess(self._scratch, arguments, self._log, background=background)
        self._started = time.perf_counter()
        self.stop = weakref.finalize(self, _stop, self._process, self._scratch, self._store)

    @property
    def done(self) -> bool:
        return self._process.done

    @property
    def process(self) -> CompilerProcess:
        return self._process

    @property
    def seconds(self) -> float:
        """How long ago it was started."""
        return time.perf_counter() - self._started

    def finish(self) -> NativeProgram:
        """Wait, then load what was made; `NotCompiledError` says why there is nothing to load."""
        code = self._process.wait()
        if code != 0:
            raise NotCompiledError(self._read_last_words())
        program = find_native(self._key, self._store)
        if program is None:
            raise NotCompiledError("the compiled library is not in the cache; is the disk full?")
        if self._scratch.path not in self._store.directory.parents:
            self._scratch.close()
        return replace(program, scratch=self._scratch)

    def _read_last_words(self) -> str:
        if not self._log.exists():
            return "the compiler was stopped"
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "the compiler died without a word"


def _stop(process: CompilerProcess, scratch: Scratch, store: Store) -> None:
    """End it with all of its children, and remove what it has not finished."""
    if process.done:
        return  # the folder goes with whoever uses it last
    process.stop()
    if scratch.path not in store.directory.parents:
        store.prune()  # half an entry is none
    scratch.close()


def _choose_places() -> tuple[Scratch, Store]:
    """A private folder, and the user's store; or a store in that folder where native code cannot be kept."""
    store = open_store()
    try:
        scratch = open_scratch(store)
    except (OSError, ArchiveError) as error:
        raise NotCompiledError(str(error)) from error
    kept = store.directory in scratch.path.parents
    return scratch, store if kept else open_store(scratch.path / "store")
