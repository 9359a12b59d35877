"""From drafts to native code: out of the cache, or compiled in a process of its own.

In: the drafts of a program. Out: a `NativeProgram`, at once if the user's own cache has it, else when its `NativeBuild`
is done. One process compiles a program, and others that want the same one wait for it. Native code is never taken from
anywhere else than the user's own cache.
"""

from __future__ import annotations

import json
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from openipu.errors import ArchiveError
from openipu.graph import GraphCall
from openipu.run.drafts.draft import Draft
from openipu.run.engines.pass_list import COMPILED
from openipu.run.half.rounding import round_half
from openipu.run.native.function import NativeFunction
from openipu.run.native.graph_text import write_graph
from openipu.run.native.parts import CONSTANTS, LIBRARY, SIGNATURE, UNITS, find_libraries
from openipu.run.native.process import CompilerProcess, Priority
from openipu.run.native.scratch import Scratch, open_scratch
from openipu.run.native.signature import Signature
from openipu.run.native.spare_thread import give_thread, take_thread_back
from openipu.run.passes.seeded_random import DRAWS
from openipu.store import Entry, Store, describe_build, describe_host, make_key, open_store


class NotCompiledError(Exception):
    """Why a program has no native form; the instant tier runs it."""


@dataclass(frozen=True, eq=False)
class NativeProgram:
    """Loaded native code. The entry is not evicted while it is in use."""

    store: Store
    entry: Entry
    functions: tuple[NativeFunction, ...]  # none of a library that is not a program: it has no signature
    scratch: Scratch | None = None  # with the store inside, where the user's own cannot be used

    @property
    def fold(self) -> int:
        """Micro-batches in one call."""
        return int(self.entry.description["fold"])

    @property
    def library(self) -> Path:
        """The file of the first unit, where that is a single one."""
        return self.entry.find(LIBRARY.format(0))

    def describe(self, facts: dict[str, Any]) -> None:
        """Note something for the next process."""
        self.store.write(self.entry.key, {}, facts)


@dataclass(frozen=True, eq=False)
class NativeJob:
    """A program that is to be compiled."""

    key: str
    content: dict[str, Any]

    @classmethod
    def write(cls, drafts: Sequence[Draft], name: str, fold: int, key: str | None) -> NativeJob:
        """The job for these drafts. Without a key, the graphs themselves are the key."""
        units = []
        for draft in drafts:
            reason = explain_unsupported(draft)
            if reason is not None:
                raise NotCompiledError(reason)
            for apply in COMPILED:
                apply(draft)
            text, tensors = Signature.read(draft).write()
            units.append(
                {
                    "graph": write_graph(draft.graph),
                    "placeholders": [_describe_value(node) for node in draft.graph.find_nodes(op="placeholder")],
                    "options": _choose_options(draft),
                    "signature": text.decode(),
                    "constants": tensors.hex(),
                }
            )
        content = {"units": units, "fold": fold, "threads": torch.get_num_threads()}
        return cls(key or make_native_key(content), {**content, "name": name})


def make_native_key(facts: dict[str, Any], *, for_any_threads: bool = False) -> str:
    """The key of native code for a program that these facts describe, made by this openipu on this host."""
    host = describe_host()
    if for_any_threads:  # their number is an argument
        del host["threads"]
    return make_key({**facts, "kind": "native", "build": describe_build(), "host": host})


def _describe_value(node: torch.fx.Node) -> list[Any]:
    value = node.meta["val"]
    return [list(value.shape), str(value.dtype).removeprefix("torch.")]


def _choose_options(draft: Draft) -> dict[str, Any]:
    options: dict[str, Any] = {
        # In a graph with forward and backward, weights and gradients would be reordered in every step.
        "layout_optimization": False,
        # What still draws from a generator draws as PyTorch does: both tiers give the same numbers.
        "fallback_random": True,
        # Inductor would compile a test program for each instruction set, in every process. PyTorch itself uses them.
        "cpp.vec_isa_ok": True,
    }
    if any(getattr(node.meta.get("val"), "dtype", None) is torch.float16 for node in draft.graph.nodes):
        options["emulate_precision_casts"] = True  # otherwise fused code skips the rounding to half
    return options


def explain_unsupported(draft: Draft) -> str | None:
    """Why a draft can only run in the instant tier; None if it can be compiled."""
    for node in draft.graph.nodes:
        if isinstance(node.target, GraphCall):
            return (
                f"it holds {node.target.name}: loops, branches and functions of the host only run in the instant tier"
            )
        if _is_foreign(node.target):
            return f"it calls {node.target}, which has no native form"
    return None


def _is_foreign(target: Any) -> bool:
    return (
        isinstance(target, torch._ops.OpOverload) and target.namespace != "aten" and target not in (*DRAWS, round_half)
    )


def find_native(key: str, store: Store | None = None) -> NativeProgram | None:
    """The program of a key, if the cache has it."""
    store = store or open_store()
    entry = store.read(key)
    if entry is None or not entry.description.get(UNITS):
        return None  # a part of some program has no units of its own
    functions = []
    for unit in range(int(entry.description[UNITS])):
        libraries, schedule = find_libraries(entry, unit)
        if not libraries:
            return None
        if SIGNATURE.format(unit) in entry:
            signature = Signature.parse(entry.read(SIGNATURE.format(unit)), entry.read(CONSTANTS.format(unit)))
            functions.append(NativeFunction(libraries, signature, schedule))
    return NativeProgram(store, entry, tuple(functions))


class NativeBuild:
    """A compilation in a process of its own, which the program waits for or goes on beside."""

    def __init__(self, job: NativeJob, *, background: bool) -> None:
        self._key = job.key
        self._scratch, self._store = _choose_places()
        job_file, self._log = self._scratch.path / "job.json", self._scratch.path / "log"
        job_file.write_text(json.dumps({**job.content, "key": job.key, "background": background}))
        arguments = [str(job_file), str(self._store.directory)]
        self._process = CompilerProcess(self._scratch, arguments, self._log, background=background)
        self._started = time.perf_counter()
        self.stop = weakref.finalize(self, _stop, self._process, self._scratch, self._store)
        self._make_room: Callable[[], object] = _nothing  # undone by the first call
        if background and self._process.priority is Priority.NORMAL:
            give_thread()
            self._make_room = weakref.finalize(self, take_thread_back)

    @property
    def done(self) -> bool:
        ended = self._process.done
        if ended:
            self._make_room()
        return ended

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
        self._make_room()
        if code != 0:
            raise NotCompiledError(self._read_last_words())
        program = find_native(self._key, self._store)
        if program is None:
            raise NotCompiledError("the compiled program is not in the cache; is the disk full?")
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


def _nothing() -> None:
    """There is room already."""


def _choose_places() -> tuple[Scratch, Store]:
    """A private folder, and the user's store; or a store in that folder where native code cannot be kept."""
    store = open_store()
    try:
        scratch = open_scratch(store)
    except (OSError, ArchiveError) as error:
        raise NotCompiledError(str(error)) from error
    kept = store.directory in scratch.path.parents
    return scratch, store if kept else open_store(scratch.path / "store")
