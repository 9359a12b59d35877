"""One call of a program, run again from the same start by one engine or another.

In: a program, options, the inputs of a call and the snapshot that it starts from. Out: the reference's results, and the
differences of any other run from them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch

from openipu.errors import OpenIpuError
from openipu.graph import EngineMode, Program, RunOptions
from openipu.run.engine.snapshot import Snapshot
from openipu.run.executable import Executable
from openipu.run.reference import Change, ReferenceEngine
from openipu.run.results import RunResult
from openipu.run.verify.differences import (
    Difference,
    Results,
    compare,
    copy_inputs,
    list_results,
    make_disturbance,
    select_weights,
)

_FIRST_RUNS, _MORE_RUNS = 2, 8
_FIRST_UNITS, _MORE_UNITS = 1.0, 8.0  # a second look finds elements at a kink, such as that of a ReLU


class Trial:
    """A call that can be repeated."""

    def __init__(
        self,
        program: Program,
        options: RunOptions,
        leaves: Sequence[Any],
        start: Snapshot,
        origin: Executable | None = None,
    ) -> None:
        """`origin`: the executable whose kernels are used, too."""
        self.program = program
        self.options = replace(options, verify=0)
        self.leaves = copy_inputs(leaves)
        self.start = start
        self._origin = origin
        self._disturbed: list[Results] = []
        self._looked_twice = False

    @cached_property
    def reference(self) -> tuple[RunResult, Snapshot]:
        """What the reference returns, and leaves on the device."""
        return self._run_reference(None)

    @cached_property
    def wanted(self) -> Results:
        """The reference's results by name."""
        return list_results(*self.reference)

    @cached_property
    def _referee(self) -> Executable:
        return Executable(self.program, replace(self.options, engine=EngineMode.REFERENCE))

    def compare(self, found: Results) -> list[Difference]:
        """The differences of a run from the reference. On a suspicion rounding is measured again, more thoroughly."""
        before = dict(select_weights(self.start))
        if not self._disturbed:
            self._disturb(_FIRST_RUNS, _FIRST_UNITS)
        differences = compare(found, self.wanted, self._disturbed, before)
        if differences and not self._looked_twice:
            self._looked_twice = True
            self._disturb(_MORE_RUNS, _MORE_UNITS)
            differences = compare(found, self.wanted, self._disturbed, before)
        return differences

    def run(self, without: Collection[str] = ()) -> list[Difference]:
        """Run the call in a new engine, without some rules, and compare. An error is a difference, too."""
        kept = torch.get_rng_state()
        try:
            executable = self._make_executable(frozenset(without))
            executable.load_snapshot(self.start)
            result = executable.run_once(copy_inputs(self.leaves))
            found = list_results(result, executable.take_snapshot())
        except Exception as error:
            return [describe_error(error)]
        finally:
            torch.set_rng_state(kept)
        return self.compare(found)

    def _make_executable(self, without: frozenset[str]) -> Executable:
        """With the kernels of the call's own executable; where a file is read, with those of this machine."""
        compiles = self._origin is None and self.options.engine is not EngineMode.OPERATORS
        engine = EngineMode.KERNELS if compiles else EngineMode.OPERATORS
        options = replace(
            self.options, engine=engine, without_rules=without, verify=1
        )  # not made before it has kernels
        executable = Executable(self.program, options)
        if self._origin is not None:
            executable.adopt_kernels(self._origin)
        return executable

    def _run_reference(self, change: Change | None) -> tuple[RunResult, Snapshot]:
        kept = torch.get_rng_state()
        executable = self._referee
        engine = executable.engine
        assert isinstance(engine, ReferenceEngine)
        try:
            executable.load_snapshot(self.start)
            engine.change = change
            return executable.run_once(copy_inputs(self.leaves)), executable.take_snapshot()
        finally:
            engine.change = None
            torch.set_rng_state(kept)

    def _disturb(self, runs: int, units: float) -> None:
        for _ in range(runs):
            try:
                result = self._run_reference(make_disturbance(len(self._disturbed), units))
            except (RuntimeError, IndexError, OpenIpuError):
                continue  # a number that is an index must not be disturbed: other runs say enough
            self._disturbed.append(list_results(*result))


def describe_error(error: Exception) -> Difference:
    """An error of an engine, where the reference has results."""
    line = (str(error).strip().splitlines() or [""])[0][:200]
    return Difference(f"the engine raised {type(error).__name__} ({line})", "", float("inf"), 0.0, 0.0)
