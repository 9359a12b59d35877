"""Plans the points of a sweep, in several processes, each point once.

In: a way to load a job, points, a machine. Out: rows in the order of the points. A program is captured once for each
micro-batch and process; what was planned before comes from the cache. A point that cannot be planned is a row that says
why.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from openipu.errors import OpenIpuError, OptionError
from openipu.explore.auto import scale_job
from openipu.explore.sweep.axes import Point
from openipu.graph import Phase, Program, RunOptions, note_of
from openipu.jobs import PlanningJob, capture_job
from openipu.machine import System
from openipu.plan import Plan, plan_program
from openipu.session.cache import find_plan, key_program, store_plan
from openipu.store import Store, open_store

LoadJob = Callable[[], PlanningJob]  # a module-level function or a partial of one: other processes call it too


@dataclass(frozen=True, slots=True)
class Row:
    """One point of a sweep."""

    point: Point
    system: str
    fits: bool = False
    peak_tile_bytes: int = 0
    limit_tile_bytes: int = 0
    needed_bytes: int = 0  # of all tiles of one replica
    samples_per_second: float = 0.0
    call_seconds: float = 0.0
    ipus: int = 0  # in use, all replicas
    seconds: float = 0.0  # that planning took
    cached: bool = False
    problem: str = ""  # why there is no plan

    def describe(self) -> dict[str, Any]:
        """Plain data, with units in the names."""
        return {
            **dict(self.point.values),
            "system_name": self.system,
            "fits": self.fits,
            "peak_tile_bytes": self.peak_tile_bytes,
            "limit_tile_bytes": self.limit_tile_bytes,
            "needed_bytes": self.needed_bytes,
            "samples_per_second": self.samples_per_second,
            "samples_per_second_per_ipu": self.samples_per_second / self.ipus if self.ipus else 0.0,
            "call_seconds": self.call_seconds,
            "ipus": self.ipus,
            "cached": self.cached,
            "problem": self.problem,
        }


def plan_points(
    load: LoadJob, points: Sequence[Point], system: System, *, processes: int | None = None, cache: bool = True
) -> list[Row]:
    """A row for each point. `processes` None: one for each core, as far as there is work for them."""
    if processes is not None and processes < 1:
        raise OptionError(f"A sweep needs at least one process, not {processes}.")
    chunks = _share_out(points, processes or os.cpu_count() or 1)
    if len(chunks) <= 1:
        return _plan_chunk(load, points, system, cache)
    context = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork
    rows: dict[Point, Row] = {}
    with ProcessPoolExecutor(len(chunks), mp_context=context) as pool:
        tasks = [pool.submit(_plan_chunk, load, chunk, system, cache) for chunk in chunks]
        for task in tasks:
            rows.update((row.point, row) for row in task.result())
    return [rows[point] for point in points]


def find_front(rows: Sequence[Row]) -> list[Row]:
    """The rows that fit and that no other beats in both throughput and memory, from small to fast."""
    front: list[Row] = []
    fitting = [row for row in rows if row.fits]
    for row in sorted(fitting, key=lambda entry: (entry.peak_tile_bytes, -entry.samples_per_second)):
        if not front or row.samples_per_second > front[-1].samples_per_second:
            front.append(row)
    return front


def _share_out(points: Sequence[Point], processes: int) -> list[list[Point]]:
    """Points of one micro-batch stay together as far as possible: each process captures what it plans."""
    ordered = sorted(points, key=lambda point: point.micro_batch or 0)
    size = -(-len(ordered) // max(1, min(processes, len(ordered))))
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]


def _plan_chunk(load: LoadJob, points: Sequence[Point], system: System, cache: bool) -> list[Row]:
    job = load()
    options = job.options or RunOptions(training=job.training)
    programs: dict[int | None, Program] = {}
    store = open_store() if cache else None
    rows: list[Row] = []
    for point in points:
        chosen = system
        try:
            chosen = point.choose_system(system)
            if point.micro_batch not in programs:
                wanted = job if point.micro_batch is None else scale_job(job, point.micro_batch)
                programs[point.micro_batch] = capture_job(wanted)
            rows.append(_plan_point(programs[point.micro_batch], point, chosen, options, store))
        except OpenIpuError as error:
            rows.append(Row(point, chosen.name, problem=str(error)))
    return rows


def _plan_point(program: Program, point: Point, system: System, options: RunOptions, store: Store | None) -> Row:
    started = time.perf_counter()
    own = point.change_options(options, _count_ipus(program))
    plan: Plan | None = None
    key = ""
    if store is not None:
        key = key_program(program, system, own)
        plan = find_plan(store, key, program, system, own)
    cached = plan is not None
    if plan is None:
        plan = plan_program(program, system, own)
        if store is not None:
            store_plan(store, key, program, plan)
    needed_ipus = plan.ipus * own.replicas
    return Row(
        point=point,
        system=system.name,
        fits=plan.fit.fits and needed_ipus <= system.ipus,
        peak_tile_bytes=int(plan.fit.peak_bytes),
        limit_tile_bytes=int(plan.fit.limit_bytes),
        needed_bytes=int(plan.fit.needed_bytes),
        samples_per_second=float(plan.timing.samples_per_second),
        call_seconds=float(plan.timing.call_seconds),
        ipus=needed_ipus,
        seconds=time.perf_counter() - started,
        cached=cached,
        problem="" if needed_ipus <= system.ipus else f"needs {needed_ipus} IPUs, {system.name} has {system.ipus}",
    )


def _count_ipus(program: Program) -> int:
    nodes = program.micro.module.graph.nodes
    return 1 + max((note_of(node).ipu for node in nodes if note_of(node).phase is Phase.FORWARD), default=0)
