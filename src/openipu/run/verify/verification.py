"""The first calls of a program, compared with the reference while the user's script runs.

In: an executable and a number of calls. Out: its results as they are, if they agree with the reference. Else the rule
at fault is found and named in a warning, the call is saved in a file, and the program goes on in the reference engine,
with the reference's results for this call, too. When the engine is exchanged, because kernels have been compiled, the
next calls are compared again.

A program that does something beside computing is not verified, because nothing may happen twice: functions of the
host, custom operators and prints; inputs that arrive while a call runs; several instances.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from openipu.errors import OpenIpuError
from openipu.graph import EngineMode, has_effects
from openipu.run.engine.engine import Engine
from openipu.run.executable import Executable
from openipu.run.results import RunResult
from openipu.run.verify.bisection import Fault, find_fault
from openipu.run.verify.differences import Difference, list_results
from openipu.run.verify.reduction import reduce_trial
from openipu.run.verify.reproducer import choose_path, write_reproducer
from openipu.run.verify.trial import Trial, describe_error

_NAMED = 3  # differences in a message

_logger = logging.getLogger("openipu")


class VerificationWarning(UserWarning):
    """A program's results differed from the reference."""


class Verification:
    """Compares calls of one executable."""

    def __init__(self, steps: int, note: Callable[[bool], None] = lambda agrees: None) -> None:
        """`note` is told of each compared call whether it agrees with the reference."""
        self.steps = steps
        self._note = note
        self.compared = 0  # calls
        self.fault: Fault | None = None
        self.differences: list[Difference] = []
        self.path: Path | None = None  # of the reproducer
        self._left = steps
        self._engine: Engine | None = None
        self._skipped = False

    def run(self, executable: Executable, leaves: Sequence[Any]) -> RunResult:
        if self.fault is not None or self._skipped:
            return executable.run_once(leaves)
        try:
            engine: Engine | None = executable.engine
        except Exception:  # it is a difference: the call fails again below
            engine = None
        if engine is not self._engine:
            self._engine, self._left = engine, self.steps
        if engine is not None and (not self._left or executable.engine_mode is EngineMode.REFERENCE):
            return executable.run_once(leaves)
        self._left -= 1
        reason = _find_obstacle(executable)
        if reason is not None:
            self._tell_skipped(executable, reason)
            return executable.run_once(leaves)
        return self._compare(executable, leaves)

    def skip(self, executable: Executable) -> None:
        self._tell_skipped(executable, "its inputs arrive while a call runs")

    def _compare(self, executable: Executable, leaves: Sequence[Any]) -> RunResult:
        trial = Trial(executable.program, executable.options, leaves, executable.take_snapshot(), executable)
        try:
            result, after = trial.reference
        except OpenIpuError:
            return executable.run_once(leaves)  # the user's mistake, with its own message
        except RuntimeError as error:
            self._tell_skipped(executable, f"the reference cannot run it ({str(error).splitlines()[0][:200]})")
            return executable.run_once(leaves)
        try:
            own = executable.run_once(leaves)
            differences = trial.compare(list_results(own, executable.take_snapshot()))
        except Exception as error:
            differences = [describe_error(error)]
        self.compared += 1
        self._note(not differences)
        if not differences:
            _logger.info("%s: call %d agrees with the reference.", executable.program.name, self.compared)
            return own
        self.differences = differences
        executable.use_reference()
        executable.load_snapshot(after)
        self._report(executable, trial)
        return result

    def _report(self, executable: Executable, trial: Trial) -> None:
        name = trial.program.name
        fault = self.fault = find_fault(trial)
        saved = ""
        try:
            smaller = reduce_trial(trial, self.differences, fault.without) if fault.rule is not None else trial
            self.path = choose_path(name)
            write_reproducer(self.path, smaller, fault.without, str(fault))
            saved = f" A reproducer is in {self.path}: `openipu doctor --verify {self.path.name}` runs it."
        except (OpenIpuError, OSError, ValueError) as error:
            self.path = None
            saved = f" No reproducer was saved: {error}"
        listed = "; ".join(str(difference) for difference in self.differences[:_NAMED])
        more = f"; and {len(self.differences) - _NAMED} more" if len(self.differences) > _NAMED else ""
        warnings.warn(
            f"{name} computed something else than the reference in verified call {self.compared}: {listed}{more}. "
            f"The cause is {fault}. The program goes on in the reference engine: its results are right, and slow."
            f"{saved} Please report it with this file. OPENIPU_ENGINE=reference runs everything like that from the "
            "start.",
            VerificationWarning,
            stacklevel=5,
        )

    def _tell_skipped(self, executable: Executable, reason: str) -> None:
        if not self._skipped:
            self._skipped = True
            warnings.warn(
                f"{executable.program.name} is not verified: {reason}. It runs as without --verify.",
                VerificationWarning,
                stacklevel=5,
            )


def verify_calls(
    executable: Executable, steps: int, note: Callable[[bool], None] = lambda agrees: None
) -> Verification:
    """Compare the first calls of an executable with the reference."""
    executable.check = verification = Verification(steps, note)
    return verification


def _find_obstacle(executable: Executable) -> str | None:
    program = executable.program
    if executable.options.instances > 1:
        return "it runs in several instances, which would have to be verified in step"
    for graph in (program.micro, program.update):
        for node in graph.module.graph.nodes if graph is not None else ():
            if has_effects(node):
                return f"{node.target} acts outside of the program, and must not run twice"
    return None
