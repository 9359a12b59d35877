"""From drafts to native code: out of the cache, or compiled in a process of its own.

In: the drafts of a program. Out: a `NativeProgram`, at once if the user's own cache has it, else when its `NativeBuild`
is done. One process compiles a program, and others that want the same one wait for it. Native code is never taken from
anywhere else than the user's own cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

import openipu.run
from openipu import __version__
from openipu.graph import GraphCall
from openipu.run.draft import Draft
from openipu.run.drawing import expand_bits, random_bits
from openipu.run.half_windows import store_windowed_values
from openipu.run.native.function import NativeFunction
from openipu.run.native.graph_text import write_graph
from openipu.run.native.parts import CONSTANTS, LIBRARY, SIGNATURE, UNITS
from openipu.run.native.signature import Signature
from openipu.run.rounding import expand_rounding, round_half
from openipu.store import Entry, Store, describe_host, make_key, open_store


class NotCompiledError(Exception):
    """Why a program has no native form; the instant tier runs it."""


@dataclass(frozen=True, eq=False)
class NativeProgram:
    """Loaded native code. The entry is not evicted while it is in use."""

    store: Store
    entry: Entry
    functions: tuple[NativeFunction, ...]

    @property
    def fold(self) -> int:
        """Micro-batches in one call."""
        return int(self.entry.description["fold"])

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
            expand_rounding(draft)
            expand_bits(draft)
            store_windowed_values(draft)
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


def make_native_key(facts: dict[str, Any]) -> str:
    """The key of native code for a program that these facts describe, made by this openipu on this host."""
    return make_key({**facts, "kind": "native", "openipu": __version__, "code": _digest_code(), **describe_host()})


@cache
def _digest_code() -> str:
    """A change of openipu's own code makes other graphs of the same program."""
    digest = hashlib.sha256()
    for path in sorted(Path(openipu.run.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


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
        isinstance(target, torch._ops.OpOverload)
        and target.namespace != "aten"
        and target not in (random_bits, round_half)
    )


def find_native(key: str, store: Store | None = None) -> NativeProgram | None:
    """The program of a key, if the cache has it."""
    store = store or open_store()
    entry = store.read(key)
    if entry is None or LIBRARY.format(0) not in entry:
        return None
    functions = []
    for unit in range(int(entry.description[UNITS])):
        signature = Signature.parse(entry.read(SIGNATURE.format(unit)), entry.read(CONSTANTS.format(unit)))
        functions.append(NativeFunction(entry.find(LIBRARY.format(unit)), signature))
    return NativeProgram(store, entry, tuple(functions))


class NativeBuild:
    """A compilation in a process of its own, which the program waits for or goes on beside."""

    def __init__(self, job: NativeJob, *, background: bool) -> None:
        self._key = job.key
        self._directory = tempfile.TemporaryDirectory(prefix="openipu-")
        path = Path(self._directory.name)
        self._store = _choose_store(path)
        (path / "job.json").write_text(json.dumps({**job.content, "key": job.key}))
        self._log = path / "log"
        worker = "openipu.run.native.worker"
        command = [sys.executable, "-m", worker, str(path / "job.json"), str(self._store.directory)]
        if background and shutil.which("nice"):
            command = ["nice", *command]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,  # so that it can be stopped with its own children
            )
        self.stop = weakref.finalize(self, _stop, self._process)

    @property
    def done(self) -> bool:
        return self._process.poll() is not None

    def finish(self) -> NativeProgram:
        """Wait, then load what was made; `NotCompiledError` says why there is nothing to load."""
        if self._process.wait() != 0:
            lines = self._log.read_text(errors="replace").strip().splitlines() or ["the compiler died without a word"]
            raise NotCompiledError(lines[-1])
        program = find_native(self._key, self._store)
        if program is None:
            raise NotCompiledError("the compiled program is not in the cache; is the disk full?")
        return program


def _choose_store(scratch: Path) -> Store:
    """The user's store, or one for this process alone where native code cannot be kept."""
    store = open_store()
    try:
        store.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return open_store(scratch / "store")
    return open_store(scratch / "store") if store.exposure else store


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Leave no compiler running behind a program that has ended."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
