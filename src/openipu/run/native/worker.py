"""What the compiling process does: one program through AOTInductor, or a file in C++. `guard.py` starts it.

In: a private folder, a job file, the directory of the cache. Out: an entry of the cache with libraries and signatures,
and one for each part of a program that repeats, which other programs with the same layers find. Inductor's imports and
its memory stay out of the user's process.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch

from openipu.run.native.build import make_native_key
from openipu.run.native.cut import cut_graph
from openipu.run.native.graph_text import read_graph
from openipu.run.native.inductor import compile_graphs
from openipu.run.native.parts import CONSTANTS, LIBRARY, SCHEDULE, SIGNATURE, STRETCH, UNITS, find_libraries
from openipu.run.native.scratch import keep_scratch
from openipu.run.native.source_files import compile_source
from openipu.store import Entry, Part, Store, make_key, open_store

_MOST_PROCESSES = 4  # each takes a gigabyte


def write_program(job: dict[str, Any], store: Store) -> None:
    """Compile a job, and write its entry."""
    torch.set_num_threads(int(job["threads"]))
    parts: dict[str, Part] = {}
    graphs: dict[str, dict[str, Any]] = {}  # by the names of their libraries
    for index, unit in enumerate(job["units"]):
        if "source" in unit:
            made = compile_source(unit["source"], Path(os.environ["TMPDIR"]))
            parts[LIBRARY.format(index)] = Part(made, native=True)
            continue
        parts[SIGNATURE.format(index)] = Part(unit["signature"].encode())
        parts[CONSTANTS.format(index)] = Part(bytes.fromhex(unit["constants"]))
        cut = cut_graph(read_graph(unit["graph"]), unit["placeholders"])
        if cut is None:
            graphs[LIBRARY.format(index)] = unit
            continue
        parts[SCHEDULE.format(index)] = Part(cut.schedule.write())
        for number, stretch in enumerate(cut.parts):
            graphs[STRETCH.format(index, number)] = {**stretch, "options": unit["options"]}
    # Waited for, it may have all cores; beside a program it is one process.
    processes = 1 if job["background"] else min(_count_cores(), _MOST_PROCESSES)
    libraries, kept = _make_libraries(graphs, job["name"], store, processes)
    parts |= {name: Part(path, native=True) for name, path in libraries.items()}
    description = {"program": job["name"], "kind": "kernels", "fold": job["fold"], UNITS: len(job["units"])}
    store.write(job["key"], parts, description)
    for entry in kept:
        entry.close()


def _make_libraries(
    graphs: dict[str, dict[str, Any]], program: str, store: Store, processes: int
) -> tuple[dict[str, Path], list[Entry]]:
    """The library of each graph, and the entries that some of them lie in: parts may have been compiled before."""
    found: dict[str, Path] = {}
    kept: list[Entry] = []
    keys = {name: _make_part_key(unit) for name, unit in graphs.items() if "signature" not in unit}
    for name, key in keys.items():
        entry = store.read(key)
        libraries, _ = find_libraries(entry, 0)
        if entry is not None and libraries:
            found[name] = libraries[0]
            kept.append(entry)
    missing = [name for name in graphs if name not in found]
    made = compile_graphs([graphs[name] for name in missing], processes)
    for name, path in zip(missing, made, strict=True):
        found[name] = path
        if name in keys:
            description = {"program": f"part of {program}", "kind": "kernels"}
            store.write(keys[name], {LIBRARY.format(0): Part(path, native=True)}, description)
    return found, kept


def _make_part_key(unit: dict[str, Any]) -> str:
    return make_native_key({name: unit[name] for name in ("graph", "placeholders", "options")})


def _count_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_job(scratch: str, job_file: str, directory: str) -> None:
    """Compile the job of a file into the store of a directory. Inductor keeps its files in the private folder."""
    kept = keep_scratch(Path(scratch))
    job = json.loads(Path(job_file).read_text())
    store = open_store(directory)
    # Who is waited for must not wait for one that only gets idle time.
    turn = make_key({"background": job["key"]}) if job["background"] else job["key"]
    try:
        with store.hold(turn):
            present, _ = find_libraries(store.read(job["key"]), 0)  # by another process, while this one waited
            if not present:
                write_program(job, store)
    except Exception as error:  # the parent shows one line, and goes on in the instant tier
        text = (str(error).strip().splitlines() or ["no message"])[0]
        print(f"{type(error).__name__}: {text}", file=sys.stderr)
        sys.exit(3)
    finally:
        kept.release()
