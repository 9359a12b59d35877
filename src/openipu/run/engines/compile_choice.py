"""When a compilation in the background pays.

In: the size of a program, the seconds that its steps have taken so far, the user's wish. Out: the seconds of steps
after which it is compiled. Nobody knows how long a run will be; the best guess is that as much is still to come as
there has been. Compiling gets what steps leave over, or 4 % of a core, and so may take long where they leave nothing;
a compiled step is often a tenth to a third shorter. So a compilation that takes C seconds pays if some more than 2 C
are still to come: it starts when the steps have taken 2 C, and never before 20 seconds. What was compiled, and which
tier was quicker, is in the cache for the next run, which asks nothing of this.
"""

from __future__ import annotations

import os

from openipu.errors import OptionError
from openipu.graph import Program
from openipu.run.native import PART_NODES, find_repeats

PATIENCE_VARIABLE = "OPENIPU_COMPILE_AFTER"
NEVER = float("inf")

_LEAST_SECONDS = 20.0  # of steps: shorter runs are somebody's trials
_PAYING_LENGTH = 2.0  # seconds of steps for each second of compiling
# BERT with 1,352 and 6,886 nodes, 12 equal layers in the latter, takes 36 s and 74 s to compile (docs/performance.md).
_COMPILER_START_SECONDS = 5.0
_COMPILER_NODE_SECONDS = 0.0125
_COMPILER_PART_SECONDS = _COMPILER_NODE_SECONDS * PART_NODES
# Of steps. One function takes a second or two; rounding without native code makes steps several times longer.
_KERNEL_SECONDS = 3.0


def choose_least_patience() -> float:
    """Seconds of steps before which no program is compiled, whatever its size."""
    wished = _read_wish()
    return _LEAST_SECONDS if wished is None else wished


def choose_patience(program: Program) -> float:
    """Seconds of steps before a program is compiled: the user's wish, else by its size."""
    wished = _read_wish()
    return max(_LEAST_SECONDS, _PAYING_LENGTH * estimate_seconds(program)) if wished is None else wished


def choose_kernel_patience() -> float:
    """Seconds of steps before single functions are compiled: for stochastic rounding, or for convolutions."""
    wished = _read_wish()
    return _KERNEL_SECONDS if wished is None else wished


def choose_dropout_patience() -> float:
    """Seconds of steps before the code of dropouts is compiled: it makes steps a few percent shorter."""
    wished = _read_wish()
    return _LEAST_SECONDS if wished is None else wished


def estimate_seconds(program: Program) -> float:
    """What compiling a program will take, on one core that is free. Layers that repeat count once, but are a part of
    their own, and leave one before them and one behind."""
    graphs = [graph for graph in (program.micro, program.update) if graph is not None]
    numbers: dict[object, int] = {}
    sequence = [
        numbers.setdefault((str(node.target), str(getattr(node.meta.get("val"), "shape", None))), len(numbers))
        for graph in graphs
        for node in graph.module.graph.nodes
        if node.op == "call_function"
    ]
    repeats = find_repeats(sequence, 2 * PART_NODES)
    nodes = len(sequence) - sum(repeat.saved for repeat in repeats)
    parts = 1 + 2 * len(repeats)
    return _COMPILER_START_SECONDS + _COMPILER_PART_SECONDS * parts + _COMPILER_NODE_SECONDS * nodes


def estimate_kernel_seconds() -> float:
    """The same for single functions: the start of a process, and a file in C++."""
    return _COMPILER_START_SECONDS


def _read_wish() -> float | None:
    wished = os.environ.get(PATIENCE_VARIABLE)
    if not wished:
        return None
    try:
        return float(wished)
    except ValueError:
        raise OptionError(
            f"{PATIENCE_VARIABLE} is {wished!r}, which is not a number of seconds: set it to 20, for example, or `inf`."
        ) from None
