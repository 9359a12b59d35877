"""Graphs through AOTInductor, in the compiling process: one after the other, or in several processes.

In: graphs as text, their placeholders and options. Out: the library of each, in Inductor's cache directory, which lies
in the private folder.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx

from openipu.run.native.graph_text import read_graph

# Headers would be precompiled for every program: `process.py` says why they are not.
_NOTHING_SHARED = {"aot_inductor.precompile_headers": False}


def compile_graphs(units: Sequence[dict[str, Any]], processes: int) -> list[Path]:
    """A library for each unit, by so many processes at a time."""
    if processes <= 1 or len(units) <= 1 or not hasattr(os, "fork"):
        return [compile_unit(unit) for unit in units]
    importlib.import_module("torch._inductor.compile_fx")  # once for all: what is forked has it
    folder = Path(os.environ["TMPDIR"])
    answers = [folder / f"library{number}" for number in range(len(units))]
    waiting = sorted(
        range(len(units)), key=lambda number: len(units[number]["graph"])
    )  # the largest first, from behind
    running: set[int] = set()
    while waiting or running:
        while waiting and len(running) < processes:
            number = waiting.pop()
            running.add(_fork(units[number], answers[number]))
        pid, status = os.wait()
        running.discard(pid)
        if status != 0:
            raise RuntimeError(_find_complaint(answers))
    return [Path(answer.read_text()) for answer in answers]


def _fork(unit: dict[str, Any], answer: Path) -> int:
    """Compile a unit in a copy of this process. No thread of PyTorch's has been started in it so far."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid != 0:
        return pid
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # its parent's way to end is not its own
        answer.write_text(str(compile_unit(unit)))
        code = 0
    except BaseException as error:
        text = (str(error).strip().splitlines() or ["no message"])[0]
        answer.with_suffix(".error").write_text(f"{type(error).__name__}: {text}")
        traceback.print_exc()
    finally:
        os._exit(code)


def _find_complaint(answers: Sequence[Path]) -> str:
    for answer in answers:
        complaint = answer.with_suffix(".error")
        if complaint.exists():
            return complaint.read_text()
    return "a compiling process died without a word"


def compile_unit(unit: dict[str, Any]) -> Path:
    """The library of one graph."""
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
