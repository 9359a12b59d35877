"""One kernel from the user's cache, or compiled in a process of its own.

In: a kernel and a store. Out: a `LoadedKernel`. A library is only taken from the user's own cache or from a private
folder. What the cache has and cannot be loaded is removed, and compiled again.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import time
import weakref
from collections.abc import Sequence

from openipu.errors import ArchiveError
from openipu.run.kernels.compiler import find_compiler, list_flags, read_sources, write_commands
from openipu.run.kernels.kernel import Kernel
from openipu.run.kernels.library import LoadedKernel, UnusableLibraryError, load_kernel
from openipu.run.kernels.process import CompilerProcess
from openipu.run.kernels.scratch import Scratch, open_scratch
from openipu.store import CHECK_LIBRARY, LIBRARIES, Entry, Part, Store, describe_host, make_key

_PART = "kernel.so"
_NO_MATTER = frozenset({"torch", "python"})  # a library depends on neither
_logger = logging.getLogger("openipu")


class KernelBuildError(Exception):
    """Why a kernel has no library: the operators do its work."""


class NoCompilerError(KernelBuildError):
    """There is no C++ compiler on this machine."""


def make_kernel_key(kernel: Kernel, flags: Sequence[str] = ()) -> str:
    """The key of a kernel's library: sources, constants, flags and this host."""
    host = {name: value for name, value in describe_host().items() if name not in _NO_MATTER}
    return make_key(
        {
            "kind": "kernel",
            "sources": read_sources(kernel),
            "constants": [list(pair) for pair in kernel.constants],
            "functions": _measure(kernel),
            "flags": [*list_flags(), *flags],
            "host": host,
        }
    )


def find_kernel(kernel: Kernel, store: Store, flags: Sequence[str] = ()) -> LoadedKernel | None:
    """The kernel, if the cache has it."""
    key = make_kernel_key(kernel, flags)
    entry = store.read(key)
    if entry is None or _PART not in entry:
        return None
    try:
        return _adopt(kernel, entry)
    except UnusableLibraryError as error:
        entry.close()
        store.remove(key)
        _logger.warning("A library in the cache is unusable, is removed and compiled again: %s.", error)
        return None


class KernelBuild:
    """A compilation that goes on beside the program, or that it waits for."""

    def __init__(self, kernel: Kernel, store: Store, *, background: bool, flags: Sequence[str] = ()) -> None:
        """`flags`: what the compiler is told beside the usual."""
        compiler = find_compiler()
        if compiler is None:
            raise NoCompilerError("there is no C++ compiler")
        self.kernel = kernel
        self._store = store
        self._turn = contextlib.ExitStack()
        # One process compiles it, and others wait for that. Who waits must not wait for one at low priority.
        key = make_kernel_key(kernel, flags)
        self._key, self._flags = key, tuple(flags)
        turn = make_key({"background": key}) if background else key
        self._ours = self._turn.enter_context(store.hold(turn, wait=not background))
        try:
            self._scratch = open_scratch(store)
            self._library = self._scratch.path / _PART
            self._log = self._scratch.path / "log"
            job = self._scratch.path / "job.json"
            job.write_text(json.dumps(self._write_job(compiler)), encoding="utf-8")
            self._process = (
                CompilerProcess(self._scratch, [str(job)], self._log, background=background) if self._ours else None
            )
        except (OSError, ArchiveError) as error:
            self._turn.close()
            raise KernelBuildError(str(error)) from error
        self._started = time.perf_counter()
        self.stop = weakref.finalize(self, _stop, self._process, self._scratch, self._turn)

    @property
    def done(self) -> bool:
        if self._process is not None:
            return self._process.done
        # Another process compiles it: either it is in the cache, or that one has given up.
        with self._store.hold(make_key({"background": self._key}), wait=False) as free:
            return free

    @property
    def process(self) -> CompilerProcess | None:
        return self._process

    @property
    def seconds(self) -> float:
        """How long ago it was started."""
        return time.perf_counter() - self._started

    def finish(self) -> LoadedKernel:
        """Wait for it, keep the library in the cache, and load it; KernelBuildError says why there is none."""
        try:
            if self._process is None:
                found = find_kernel(self.kernel, self._store, self._flags)
                if found is None:
                    raise KernelBuildError("another process could not compile it")
                return found
            if self._process.wait() != 0:
                raise KernelBuildError(self._read_last_words())
            return self._keep()
        finally:
            self.stop()

    def _keep(self) -> LoadedKernel:
        description = {"program": self.kernel.name, "kind": "kernels", LIBRARIES: {_PART: _measure(self.kernel)}}
        entry = self._store.write(self._key, {_PART: Part(self._library, native=True)}, description)
        try:
            if entry is not None and _PART in entry:
                return _adopt(self.kernel, entry)
            return load_kernel(self.kernel, self._library)  # a cache that keeps no native code: loaded as it is
        except UnusableLibraryError as error:
            raise KernelBuildError(str(error)) from error

    def _write_job(self, compiler: str) -> dict[str, object]:
        sizes = [f"{symbol}={size}" for symbol, size in _measure(self.kernel).items()]
        return {
            "commands": write_commands(self.kernel, compiler, self._library, self._flags),
            "check": [sys.executable, "-I", "-S", str(CHECK_LIBRARY), str(self._library), *sizes],
        }

    def _read_last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines() if self._log.exists() else []
        return lines[-1] if lines else "the compiler was stopped"


def _measure(kernel: Kernel) -> dict[str, int]:
    return {function.symbol: function.argument_bytes for function in kernel.functions}


def _adopt(kernel: Kernel, entry: Entry) -> LoadedKernel:
    return load_kernel(kernel, entry.find(_PART), entry)


def _stop(process: CompilerProcess | None, scratch: Scratch, turn: contextlib.ExitStack) -> None:
    """End it with all of its children, and remove what it has not finished."""
    if process is not None and not process.done:
        process.stop()
    scratch.close()
    turn.close()
