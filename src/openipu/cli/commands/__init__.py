"""One module a command: `add_parser` describes it, `execute` does it and returns the exit code."""

from openipu.cli.commands import (
    auto,
    cache,
    compare,
    cxx_flags,
    doctor,
    export,
    garden,
    plan,
    pod,
    report,
    run,
    sweep,
    systems,
    trace,
    validate,
)

ALL = (run, plan, auto, sweep, compare, export, report, trace, systems, validate, garden, pod, cache, cxx_flags, doctor)

__all__ = [
    "ALL",
    "auto",
    "cache",
    "compare",
    "cxx_flags",
    "doctor",
    "export",
    "garden",
    "plan",
    "pod",
    "report",
    "run",
    "sweep",
    "systems",
    "trace",
    "validate",
]
