"""What the plans of the running programs say, for callbacks and loggers.

In: executors that have compiled. Out: plain numbers by name. All of them are modelled; none is measured.
"""

from __future__ import annotations

from typing import Any

from openipu.plan import Plan
from openipu.report import format_bytes_of, format_rate
from openipu.tracking import describe_plan, list_plan_scalars


def list_scalars(plan: Plan, separator: str = ".") -> dict[str, float]:
    """Memory, cycles and throughput of one program."""
    return list_plan_scalars(describe_plan(plan), separator)


def find_compiled(programs: Any) -> Any:
    """The program that a stage last ran; None before it ran one."""
    executor = getattr(programs, "executor", None)
    current = getattr(programs, "current", None)
    if current is not None and current.programs and hasattr(current.programs[0], "isCompiled"):
        executor = current.programs[0]
    return getattr(executor, "_compiled", None)


def find_plan(programs: Any) -> Plan | None:
    """The plan of the program that a stage last ran."""
    compiled = find_compiled(programs)
    return None if compiled is None else compiled.plan


def describe_line(stage: str, plan: Plan) -> str:
    """One line for the log."""
    fit, timing = plan.fit, plan.timing
    verdict = "fits" if fit.fits else "does not fit"
    count = plan.ipus * plan.options.replicas
    return (
        f"IPU {stage}: {count} {'IPU' if count == 1 else 'IPUs'} of {plan.system.name}, micro-batches of "
        f"{plan.micro_batch}, {format_rate(timing.samples_per_second)} samples/s (modelled); the program {verdict}, "
        f"its fullest tile needs {format_bytes_of(fit.peak_bytes, fit.limit_bytes)}."
    )
