"""The profile of an engine: a plan of what it ran, as text, as a file, and as a report.

In: a compiled program and how often its leaves ran. Out: a `Plan`, `profile.pop`, and the summary under the
headings that users of the original know. Every figure is modelled.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openipu.graph.mapped import MappedProgram
from openipu.plan import Plan, StepKind
from openipu.plan.mapped import plan_mapped
from poplar._errors import graph_memory_allocation_error

_LABELS = {
    StepKind.EXCHANGE: "IPU exchange",
    StepKind.LINK: "global exchange",
    StepKind.HOST: "host exchange",
    StepKind.SYNC: "sync",
}
_COLUMN = 54


def plan_runs(program: MappedProgram, runs: Sequence[int], executions: Mapping[int, int] | None) -> Plan:
    """What the runs so far cost; before the first run, each program once."""
    return plan_mapped(program, Counter(runs) or None, executions if runs else None)


def refuse_overflow(program: MappedProgram, plan: Plan, path: str = "") -> None:
    """A tile that is too full, with what fills it and where that was made."""
    fit = plan.fit
    if fit.fits:
        return
    lines = {variable.name: variable.line for variable in program.variables}
    parts = []
    for culprit in fit.culprits[:3]:
        where = f" ({lines[culprit.name]})" if lines.get(culprit.name) is not None else ""
        parts.append(f"{culprit.name} with {culprit.bytes_on_tile:,} B{where}")
    raise graph_memory_allocation_error(
        f"Out of memory: Cannot fit all variable data onto one or more tiles. Tile {fit.peak_tile} needs "
        f"{fit.peak_bytes:,} B and has {fit.limit_bytes:,} B; {fit.tiles_over} tiles are too full. On that tile: "
        f"{', '.join(parts)}. Spread these over more tiles (poputil.mapTensorLinearly), or set the option "
        "debug.allowOutOfMemory to see a profile all the same.",
        path,
    )


def refuse_too_large(program: MappedProgram) -> None:
    """More data than this machine has memory: better a message now than an end by the system later."""
    needed = program.replicas * sum(size * elements for size, elements in program.spaces.items())
    present = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed <= present:
        return
    largest = max(program.variables, key=lambda variable: variable.bytes)
    raise graph_memory_allocation_error(
        f"The variables of this program hold {needed / 2**30:,.0f} GiB, and this machine has {present / 2**30:,.0f} "
        f"GiB of memory. The largest is {largest.name!r} of shape {list(largest.shape)} (added at {largest.line}). "
        "Make it smaller, or only plan the program: engine.getPlan() needs no data."
    )


def write_summary(program: MappedProgram, plan: Plan, runs: Sequence[int], options: Mapping[str, Any]) -> str:
    """The profile summary."""
    chip, ipus = program.system.target, max(1, program.tiles * program.replicas // program.tiles_per_ipu)
    lines = [
        "Target:",
        "  Type:                        IPU_MODEL",
        f"  Architecture:                {chip.architecture}",
        f"  Number of IPUs:              {ipus:,}",
        f"  Tiles per IPU:               {program.tiles_per_ipu:,}",
        f"  Total Tiles:                 {program.tiles * program.replicas:,}",
        f"  Memory Per-Tile:             {chip.tile_memory_bytes / 1024:,.1f} kB",
        f"  Total Memory:                {chip.tile_memory_bytes * program.tiles * program.replicas / 2**20:,.1f} MB",
        f"  Clock Speed (approx):        {chip.clock_hz / 1e6:,.1f} MHz",
        f"  Number of Replicas:          {program.replicas:,}",
        "",
        "Graph:",
        f"  Number of vertices:          {_count_vertices(program, plan):,}",
        f"  Number of edges:             {_count_edges(program):,}",
        f"  Number of variables:         {len(program.variables):,}",
        f"  Number of compute sets:      {sum(step.kind is StepKind.COMPUTE for step in plan.steps):,}",
        "",
        "Memory Usage:",
        *_describe_memory(plan),
        "",
        "Execution:",
        "",
        "  Programs executed:",
        "",
        *(f"    program {number}: {times:,} times" for number, times in sorted((Counter(runs) or {0: 1}).items())),
        "",
        *_describe_cycles(plan),
    ]
    if str(options.get("showExecutionSteps", "false")).lower() == "true":
        lines += ["", "  Execution steps:", *_describe_steps(plan)]
    return "\n".join(lines) + "\n"


def _count_vertices(program: MappedProgram, plan: Plan) -> int:
    own = sum(compute_set.vertices for compute_set in program.compute_sets)
    seen: set[int] = set()
    library = 0
    for step in plan.steps:
        of_library = step.op is not None and plan.ops[step.op].op.startswith("aten.")
        if of_library and step.code is not None and step.code.program not in seen:
            seen.add(step.code.program)
            library += step.code.vertices_per_tile * step.tiles
    return own + library


def _count_edges(program: MappedProgram) -> int:
    return sum(
        batch.count * sum(len(rows) for rows in batch.edges.values())
        for compute_set in program.compute_sets
        for batch in compute_set.batches
    )


def _describe_memory(plan: Plan) -> list[str]:
    total = sum(int(memory.peak.sum()) for memory in plan.memory)
    fullest = plan.fit
    lines = [
        f"  Total for all tiles:         {total:,} B",
        f"  Maximum on one tile:         {fullest.peak_bytes:,} B of {fullest.limit_bytes:,} B, on tile "
        f"{fullest.peak_tile}",
        f"  Always-live variables:       {sum(int(memory.always_live.sum()) for memory in plan.memory):,} B",
        f"  Not always live, at its peak: {sum(int(memory.peak_not_always_live.sum()) for memory in plan.memory):,} B",
    ]
    for category in plan.memory[0].categories:
        held = sum(int(memory.categories[category].sum()) for memory in plan.memory)
        if held:
            lines.append(f"  {category.value + ':':<29}{held:,} B")
    return lines


def average_cycles(plan: Plan) -> dict[str, float]:
    """Mean cycles of a tile in all executions: compute with and without idle threads, and each kind of exchange."""
    tiles = plan.system.target.tiles * len(plan.memory)
    found = {"compute": 0.0, "compute busy": 0.0, **dict.fromkeys(_LABELS.values(), 0.0)}
    for step in plan.steps:
        assert step.by_tile is not None
        times = step.by_tile.executions
        spent = float(step.by_tile.cycles.sum()) * times / tiles
        if step.kind is StepKind.COMPUTE:
            found["compute"] += spent
            busy = step.by_tile.busy_cycles
            found["compute busy"] += spent if busy is None else float(np.sum(busy)) * times / tiles
        else:
            found[_LABELS[step.kind]] += spent
    return found


def _describe_cycles(plan: Plan) -> list[str]:
    total, clock = plan.timing.call_cycles, plan.timing.clock_hz
    means = average_cycles(plan)

    def line(label: str, cycles: float) -> str:
        share = cycles / total * 100 if total else 0.0
        return f"    {label + ':':<{_COLUMN}}{cycles:,.1f} ({share:.1f}% of total)"

    return [
        f"    {'Total cycles:':<{_COLUMN}}{total:,.0f} (approx {total / clock * 1e6:,.1f} microseconds)",
        line("Tile average compute cycles (including idle threads)", means["compute"]),
        line("Tile average compute cycles (excluding idle threads)", means["compute busy"]),
        *(line(f"Tile average {label} cycles", means[label]) for label in _LABELS.values()),
    ]


def _describe_steps(plan: Plan) -> list[str]:
    lines = []
    for step in plan.steps:
        if not step.cycles:
            continue
        moved = f", {step.moved_bytes:,} B" if step.moved_bytes else ""
        times = f" in {step.repeats:,} executions" if step.repeats > 1 else ""
        lines.append(
            f"    {step.kind.value:<9} {step.name}: {step.cycles:,.0f} cycles{times}, {step.tiles:,} tiles{moved}"
        )
    return lines
