"""Scalars of plans and runs, for TensorBoard, Weights & Biases and whatever else draws curves.

In: plans, and the calls of programs as they happen. Out: plain numbers by name. Names that begin with `ipu` are
modelled, those that begin with `host` were measured on this machine.

    with RunMeter() as meter:
        for step, batch in enumerate(loader):
            training_model(*batch)
            for name, value in meter.take().items():
                writer.add_scalar(name, value, step)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from openipu.activity import ProgramFigures, Watcher, add_watcher, remove_watcher

if TYPE_CHECKING:
    from openipu.plan.types import Plan


def describe_plan(plan: Plan, compile_seconds: float = 0.0, profile_directory: Path | None = None) -> ProgramFigures:
    """The figures of a plan that others show and log."""
    fit, timing = plan.fit, plan.timing
    return ProgramFigures(
        name=plan.name,
        system=plan.system.name,
        ipus=plan.ipus * plan.options.replicas,
        replicas=plan.options.replicas,
        fits=fit.fits,
        needed_bytes=fit.needed_bytes,
        peak_bytes=fit.peak_bytes,
        limit_bytes=fit.limit_bytes,
        call_cycles=float(timing.call_cycles),
        clock_hz=timing.clock_hz,
        samples_per_call=timing.samples_per_call,
        compile_seconds=compile_seconds,
        profile_directory=profile_directory,
    )


def list_plan_scalars(figures: ProgramFigures, separator: str = "/") -> dict[str, float]:
    """Memory, cycles and throughput of one program: all of it modelled."""
    values = {
        "count": float(figures.ipus),
        "replicas": float(figures.replicas),
        "memory_needed_bytes": float(figures.needed_bytes),
        "memory_fullest_tile_bytes": float(figures.peak_bytes),
        "memory_tile_limit_bytes": float(figures.limit_bytes),
        "memory_fullest_tile_share": figures.peak_bytes / figures.limit_bytes,
        "fits": float(figures.fits),
        "call_cycles": figures.call_cycles,
        "call_seconds_modelled": figures.call_seconds,
        "samples_per_second_modelled": figures.samples_per_second,
    }
    return {f"ipu{separator}{name}": value for name, value in values.items()}


@dataclass(eq=False)
class _Calls:
    """Of one program, since they were last taken."""

    calls: int = 0
    seconds: float = 0.0


class RunMeter(Watcher):
    """Measures the calls of this process's programs, from `with`, or `start`, to its end."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._adding = threading.Lock()  # programs may run in several threads
        self._calls: dict[int, _Calls] = {}  # by executable
        self._figures: dict[int, ProgramFigures] = {}
        self._told: set[int] = set()
        self._since: dict[int, float] = {}  # when the calls of a program were last taken
        self._started = clock()

    def __enter__(self) -> RunMeter:
        self.start()
        return self

    def __exit__(self, *details: object) -> None:
        self.stop()

    def start(self) -> None:
        """Measure from now on; a second call begins anew."""
        self.stop()
        self._calls.clear()
        self._since.clear()
        self._started = self._clock()
        add_watcher(self)

    def stop(self) -> None:
        remove_watcher(self)

    def finish(self, compilation: int, executable: int, figures: ProgramFigures) -> None:
        self._figures[executable] = figures

    def note_run(self, executable: int, name: str, seconds: float) -> None:
        with self._adding:
            known = self._calls.setdefault(executable, _Calls())
            known.calls += 1
            known.seconds += seconds

    def take(self) -> dict[str, float]:
        """Scalars of every program that ran since the last time, its name before theirs; those of a plan come once."""
        scalars: dict[str, float] = {}
        for executable in list(self._calls):
            figures = self._figures.get(executable)
            found = self.take_program(executable, figures)
            if figures is not None and executable not in self._told:
                self._told.add(executable)
                found |= list_plan_scalars(figures)
            title = figures.name if figures is not None else f"program {executable}"
            scalars |= {f"{title}/{name}": value for name, value in found.items()}
        return scalars

    def take_program(
        self, executable: int, figures: ProgramFigures | None = None, separator: str = "/"
    ) -> dict[str, float]:
        """What one program did on this host since the last time; nothing if it did not run.

        `run_share` is the part of the time that passed between two of these calls in which the program ran: the rest is
        loading of data, logging, and whatever else the script does.
        """
        now = self._clock()
        since = self._since.get(executable, self._started)
        with self._adding:
            done = self._calls.pop(executable, None)
        self._since[executable] = now
        if done is None:
            return {}
        values = {"calls": float(done.calls), "call_seconds": done.seconds / done.calls}
        if now > since:
            values["run_share"] = min(1.0, done.seconds / (now - since))
        if figures is not None and done.seconds:
            values["samples_per_second"] = figures.samples_per_call * done.calls / done.seconds
        return {f"host{separator}{name}": value for name, value in values.items()}
