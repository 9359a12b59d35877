"""Steps of a training before, during and after a compilation in the background, inside their own process.

In: a cell. Out: seconds of single steps, by what went on beside them. The process is bound to two cores.
"""

from __future__ import annotations

import os
import statistics
import time
from typing import Any

from bench.cells import OPENIPU
from bench.work.process_figures import list_descendants
from bench.work.steps import StepRunner

CORES = 2
LEFT_OUT_STEPS = 3  # at each change: one that was begun before it, and the first ones after it


class BackgroundRunner:
    """A training that compiles in the background, as a user's does."""

    def __init__(self, cell: str) -> None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
        self._runner = StepRunner(cell, OPENIPU.name)
        self._runner.prepare()

    def observe(self, limit_seconds: float, after_seconds: float) -> dict[str, Any]:
        """Step until a compilation has come and gone, and for so long afterwards."""
        phases: dict[str, list[float]] = {"before": [], "during": [], "after": []}
        phase, started, changed = "before", time.perf_counter(), 0.0
        compile_seconds = 0.0
        while True:
            begun = time.perf_counter()
            if begun - started > limit_seconds or (phase == "after" and begun - changed > after_seconds):
                break
            self._runner.step()
            phases[phase].append(time.perf_counter() - begun)
            compiles = bool(list_descendants(os.getpid()))
            if (phase == "before" and compiles) or (phase == "during" and not compiles):
                now = time.perf_counter()
                compile_seconds = now - changed if phase == "during" else 0.0
                phase, changed = ("during" if compiles else "after"), now
        steady = {name: seconds[LEFT_OUT_STEPS:-1] for name, seconds in phases.items()}
        means = {f"{name}_seconds": statistics.fmean(seconds) for name, seconds in steady.items() if seconds}
        counts = {f"{name}_steps": len(seconds) for name, seconds in steady.items()}
        longest = {"longest_seconds": max(steady["during"])} if steady["during"] else {}
        return {**means, **counts, **longest, "compile_seconds": compile_seconds}
