"""The process that compiles one program: `python -m openipu.run.native.worker JOB STORE`.

In: a job file, the directory of the cache. Out: an entry of the cache with libraries and signatures. Inductor's
imports, its memory and its own worker processes stay out of the user's process.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import fx

from openipu.run.native.graph_text import read_graph
from openipu.run.native.parts import CONSTANTS, LIBRARY, SIGNATURE, UNITS
from openipu.run.native.rounding_kernel import export_kernel
from openipu.store import Part, open_store


def compile_job(job: dict[str, Any]) -> dict[str, Part]:
    """All parts of the entry."""
    torch.set_num_threads(int(job["threads"]))
    parts: dict[str, Part] = {}
    for index, unit in enumerate(job["units"]):
        parts[LIBRARY.format(index)] = Part(compile_unit(unit), native=True)
        parts[SIGNATURE.format(index)] = Part(unit["signature"].encode())
        parts[CONSTANTS.format(index)] = Part(bytes.fromhex(unit["constants"]))
    return parts


def compile_unit(unit: dict[str, Any]) -> Path:
    """One graph through AOTInductor; the library lies in Inductor's cache directory."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "kernel" in unit:
            module, examples = export_kernel(unit["kernel"])
        else:
            module = fx.GraphModule(torch.nn.Module(), read_graph(unit["graph"]))
            # Zeros that nobody touches take no memory.
            examples = tuple(torch.zeros(shape, dtype=getattr(torch, name)) for shape, name in unit["placeholders"])
        made = torch._inductor.aot_compile(module, examples, options=unit["options"])
    if not isinstance(made, str):
        raise TypeError(f"expected the path of a library, not {type(made).__name__}")
    # Operators outside of PyTorch's C interface are described in a second file: it is then no single library.
    described = Path(made).with_suffix(".json")
    if described.exists() and json.loads(described.read_text()).get("nodes"):
        raise NotImplementedError("it calls operators that only Python can reach")
    return Path(made)


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    store = open_store(sys.argv[2])
    description = {"program": job["name"], "tier": "compiled", "fold": job["fold"], UNITS: len(job["units"])}
    # Inductor's own cache would keep every graph and source file for ever: ours keeps the library.
    with tempfile.TemporaryDirectory(prefix="openipu-native-") as scratch:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = scratch
        try:
            with store.hold(job["key"]):
                present = store.read(job["key"])  # by another process, while this one waited
                if present is None or LIBRARY.format(0) not in present:
                    store.write(job["key"], compile_job(job), description)
        except Exception as error:  # the parent shows one line, and goes on in the instant tier
            text = (str(error).strip().splitlines() or ["no message"])[0]
            print(f"{type(error).__name__}: {text}", file=sys.stderr)
            sys.exit(3)


if __name__ == "__main__":
    main()
