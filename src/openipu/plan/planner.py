"""Program x System x RunOptions -> Plan: the passes, listed once in order.

No cycle is simulated: each pass computes from the graph's shapes alone, so weights may live on the meta device.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from openipu.graph import Program, RunOptions
from openipu.graph.collection import pause_collection
from openipu.machine import Provenance, System
from openipu.ops.cost import Family
from openipu.plan.code import measure_code
from openipu.plan.liveness import TileLiveness, VariableList, list_variables
from openipu.plan.lowering.known import KnownProgram
from openipu.plan.lowering.lower import lower_program
from openipu.plan.place import place_storages
from openipu.plan.price import make_context, price_tasks
from openipu.plan.schedule import Schedule, schedule_steps
from openipu.plan.streams import HOST_WAIT, add_streams
from openipu.plan.types import IpuMemory, Plan, PlannedOp, PlannedStep, Variable
from openipu.plan.verdict import judge_fit, time_program
from openipu.plan.work import Task, Workload

PASSES = ("lower", "price", "place", "stream", "schedule", "liveness", "code", "fit", "time")

Progress = Callable[[float], None]  # share done, 0 to 1
Result = TypeVar("Result")
OnIpu = TypeVar("OnIpu", Variable, PlannedStep)


@pause_collection()
def plan_program(
    program: Program,
    system: System,
    options: RunOptions,
    progress: Progress | None = None,
    known: KnownProgram | None = None,
) -> Plan:
    """What the IPUs of `system` would do with `program`. Plans of one program that share `known` are made sooner."""
    clock = _Clock(progress or (lambda share: None))
    seen = known if known is not None else KnownProgram()
    workload = clock.run("lower", lambda: lower_program(program, options, system, seen))
    return plan_workload(workload, system, options, seen, clock)


def plan_workload(
    workload: Workload, system: System, options: RunOptions, known: KnownProgram, clock: _Clock | None = None
) -> Plan:
    """The passes after lowering. They write into the workload."""
    clock = clock or _Clock(lambda share: None)
    context = make_context(system, options)
    clock.run("price", lambda: price_tasks(workload, system, options, known))
    clock.run("place", lambda: place_storages(workload, context))
    clock.run("stream", lambda: add_streams(workload, system, options))
    schedule = clock.run("schedule", lambda: schedule_steps(workload, system, options))
    listed = clock.run("liveness", lambda: list_variables(workload, schedule))
    variables = listed.variables
    ops = tuple(_describe_task(task, schedule, listed) for task in workload.tasks)
    memory = _measure_memory(workload, variables, schedule, system, clock)
    fit = clock.run("fit", lambda: judge_fit(memory, variables, ops, system))
    timing, pipeline = clock.run("time", lambda: time_program(workload, schedule.steps, ops, options, system))
    return Plan(
        name=workload.name,
        system=system,
        options=options,
        micro_batch=workload.micro_batch,
        ops=ops,
        steps=schedule.steps,
        variables=variables,
        memory=memory,
        fit=fit,
        timing=timing,
        guessed_ops=dict(Counter(op.op for op in ops if op.provenance is Provenance.GUESSED)),
        planning_seconds=time.perf_counter() - clock.started,
        passes=clock.seconds,
        warnings=_list_warnings(workload, schedule, system, options),
        pipeline=pipeline,
    )


def _measure_memory(
    workload: Workload, variables: tuple[Variable, ...], schedule: Schedule, system: System, clock: _Clock
) -> tuple[IpuMemory, ...]:
    count = len(schedule.steps)
    held = _group_by_ipu(variables)
    own = _group_by_ipu(schedule.steps)
    return tuple(
        _measure_ipu(ipu, workload, held.get(ipu, ()), own.get(ipu, ()), count, system, clock)
        for ipu in range(workload.ipus)
    )


def _measure_ipu(
    ipu: int,
    workload: Workload,
    variables: Sequence[Variable],
    steps: Sequence[PlannedStep],
    count: int,
    system: System,
    clock: _Clock,
) -> IpuMemory:
    live = clock.run("liveness", lambda: TileLiveness(variables, count, system))
    return IpuMemory(
        ipu=ipu,
        always_live=live.always_live,
        categories=clock.run("code", lambda: measure_code(workload, steps, system, ipu)),
        peak_not_always_live=live.peak,
        peak_step_by_tile=live.peak_step,
        live_by_step=live.live_by_step,
        fullest_by_step=live.fullest_by_step,
    )


def _group_by_ipu(entries: Sequence[OnIpu]) -> Mapping[int, Sequence[OnIpu]]:
    """What lies or runs on each IPU, in order."""
    found: dict[int, list[OnIpu]] = {}
    for entry in entries:
        found.setdefault(entry.ipu, []).append(entry)
    return found


def _describe_task(task: Task, schedule: Schedule, listed: VariableList) -> PlannedOp:
    cost = task.priced
    first, last = schedule.first_step[task.index], schedule.last_step[task.index]
    steps = schedule.steps[first : last + 1]
    return PlannedOp(
        index=task.index,
        name=task.name,
        op=task.site.op,
        family=cost.family,
        phase=task.phase,
        module=task.note.module,
        line=task.note.line,
        cycles=sum(step.cycles for step in steps),
        flops=cost.flops,
        moved_bytes=sum(step.moved_bytes for step in steps),
        scratch_bytes_per_tile=cost.scratch_bytes_per_tile,
        first_step=first,
        step_count=last - first + 1,
        provenance=cost.provenance,
        basis=cost.basis,
        ipu=task.place.ipu,
        stage=task.place.stage,
        plan=cost.plan,
        reads=listed.find(task.reads),
        writes=listed.find(task.writes),
    )


def _list_warnings(workload: Workload, schedule: Schedule, system: System, options: RunOptions) -> tuple[str, ...]:
    found: list[str] = []
    replicas = options.replicas * options.instances
    needed = replicas * workload.ipus
    if needed > system.ipus:
        each = f" of {workload.ipus} IPUs each" if workload.ipus > 1 else ""
        found.append(
            f"{replicas} replicas{each} need {needed} IPUs, but {system.name} has {system.ipus}. "
            "Choose a larger system to see what it would do there."
        )
    waits = [step for step in schedule.steps if step.name == HOST_WAIT]
    if waits:
        found.append(
            f"The host link is the limit: each micro-batch waits {waits[0].cycles:,.0f} cycles for it. "
            "Smaller number formats, or fewer results, would help more than faster computation."
        )
    unknown = {task.site.op for task in workload.tasks if task.priced.family is Family.UNKNOWN}
    if unknown:
        found.append(f"No cost rule for {', '.join(sorted(unknown))}: costed as bytes moved, a guess.")
    return tuple(found)


class _Clock:
    """Runs passes by name and keeps their times."""

    def __init__(self, progress: Progress) -> None:
        self.started = time.perf_counter()
        self.seconds: dict[str, float] = {}
        self._progress = progress
        self._share = 0.0

    def run(self, name: str, work: Callable[[], Result]) -> Result:
        started = time.perf_counter()
        result = work()
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started
        self._share = max(self._share, (PASSES.index(name) + 1) / len(PASSES))  # some run once for each IPU
        self._progress(self._share)
        return result
