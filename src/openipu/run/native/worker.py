"""What the compiling process does: one program through AOTInductor, or a file in C++. `guard.py` starts it.

In: a private folder, a job file, the directory of the cache. Out: an entry of the cache with libraries and signatures.
Inductor's imports and its memory stay out of the user's process.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import fx

from openipu.run.native.graph_text import read_graph
from openipu.run.native.parts import CONSTANTS, LIBRARY, SIGNATURE, UNITS
from openipu.run.native.scratch import keep_scratch
from openipu.run.native.source_files import compile_source
from openipu.store import Part, make_key, open_store

# Headers would be precompiled for every program: `process.py` says why they are not.
_NOTHING_SHARED = {"aot_inductor.precompile_headers": False}


def compile_job(job: dict[str, Any]) -> dict[str, Part]:
    """All parts of the entry."""
    torch.set_num_threads(int(job["threads"]))
    parts: dict[str, Part] = {}
    for index, unit in enumerate(job["units"]):
        if "source" in unit:
            made = compile_source(unit["source"], Path(os.environ["TMPDIR"]))
            parts[LIBRARY.format(index)] = Part(made, native=True)
            continue
        parts[LIBRARY.format(index)] = Part(compile_unit(unit), native=True)
        parts[SIGNATURE.format(index)] = Part(unit["signature"].encode())
        parts[CONSTANTS.format(index)] = Part(bytes.fromhex(unit["constants"]))
    return parts


def compile_unit(unit: dict[str, Any]) -> Path:
    """One graph through AOTInductor; the library lies in Inductor's cache directory."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = fx.GraphModule(torch.nn.Module(), read_graph(unit["graph"]))
        # Zeros that nobody touches take no memory.
        examples = tuple(torch.zeros(shape, dtype=getattr(torch, name)) for shape, name in unit["placeholders"])
        options = {**unit["options"], **_NOTHING_SHARED}
        made = torch._inductor.aot_compile(module, examples, options=options)
    if not isinstance(made, str):
        raise TypeError(f"expected the path of a library, not {type(made).__name__}")
    # Operators outside of PyTorch's C interface are described in a second file: it is then no single library.
    described = Path(made).with_suffix(".json")
    if described.exists() and json.loads(described.read_text()).get("nodes"):
        raise NotImplementedError("it calls operators that only Python can reach")
    return Path(made)


def run_job(scratch: str, job_file: str, directory: str) -> None:
    """Compile the job of a file into the store of a directory. Inductor keeps its files in the private folder."""
    kept = keep_scratch(Path(scratch))
    job = json.loads(Path(job_file).read_text())
    store = open_store(directory)
    description = {"program": job["name"], "tier": "compiled", "fold": job["fold"], UNITS: len(job["units"])}
    # Who is waited for must not wait for one that only gets idle time.
    turn = make_key({"background": job["key"]}) if job["background"] else job["key"]
    try:
        with store.hold(turn):
            present = store.read(job["key"])  # by another process, while this one waited
            if present is None or LIBRARY.format(0) not in present:
                store.write(job["key"], compile_job(job), description)
    except Exception as error:  # the parent shows one line, and goes on in the instant tier
        text = (str(error).strip().splitlines() or ["no message"])[0]
        print(f"{type(error).__name__}: {text}", file=sys.stderr)
        sys.exit(3)
    finally:
        kept.release()
