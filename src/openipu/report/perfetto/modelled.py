"""Lays a profile out on the tracks of a Perfetto trace.

In: a `Profile`. Out: the trace. Each IPU is a process with the modules and ops of its steps, the steps themselves by
kind, and its live memory; a pipeline is one more, with the ticks between two flushes. Times are nanoseconds of the
modelled clock, rounded where they stand and not added up; every slice has its cycles as they are in the plan.
"""

from __future__ import annotations

import gzip
import itertools
from pathlib import Path
from typing import Any

import numpy as np

from openipu.report.atomic import write_aside
from openipu.report.perfetto.order import find_starts
from openipu.report.perfetto.packets import PacketWriter, Track
from openipu.report.profile import Floats, MemoryRecord, PipelineRecord, Profile

DEEPEST = 32  # modules inside modules: the rest of a path is not shown
MOST_TICKS = 20_000  # of a pipeline; what follows is one slice


def write_perfetto(profile: Profile, path: Path) -> Path:
    """Write the trace to `path`, replacing an older one in a single move."""
    path = Path(path)
    content = render_perfetto(profile)
    with write_aside(path) as part:
        part.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def render_perfetto(profile: Profile) -> bytes:
    """The whole trace."""
    writer = PacketWriter()
    starts = find_starts(profile)
    for memory in profile.memory:
        _IpuTracks(writer, profile, memory, starts).write()
    if profile.pipeline is not None:
        _write_pipeline(writer, profile, profile.pipeline)
    return writer.finish()


class _IpuTracks:
    """The tracks of one IPU."""

    def __init__(self, writer: PacketWriter, profile: Profile, memory: MemoryRecord, starts: Floats) -> None:
        self.writer, self.profile, self.memory, self.starts = writer, profile, memory, starts
        own = np.flatnonzero(profile.steps.ipu == memory.ipu)
        self.order: list[int] = own[np.argsort(starts[own], kind="stable")].tolist()
        title = f"IPU {memory.ipu}: {profile.name} on {profile.system.name} (modelled)"
        self.process = writer.add_process(title)

    def write(self) -> None:
        self._write_ops()
        self._write_steps()
        self._write_memory()

    def _write_ops(self) -> None:
        """Phases, modules and ops, each inside the one before it."""
        track = self.writer.add_track(self.process, "phases, modules and ops")
        steps = self.profile.steps
        open_path: tuple[str, ...] = ()
        end = 0.0
        for (path, op), group in itertools.groupby(self.order, self._find_path):
            run = list(group)
            start = float(self.starts[run[0]])
            shared = 0
            if start == end:  # nothing lies between: modules that go on stay open
                shared = sum(
                    1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(open_path, path, strict=False))
                )
            for _ in open_path[shared:]:
                self.writer.end(track, self._to_ns(end))
            for name in path[shared:]:
                self.writer.begin(track, self._to_ns(start), name, "module", {})
            end = float(self.starts[run[-1]] + steps.cycles[run[-1]])
            if op >= 0:
                self.writer.begin(track, self._to_ns(start), self._name_op(op), "op", self._describe_op(op, run))
                self.writer.end(track, self._to_ns(end))
            open_path = path
        for _ in open_path:
            self.writer.end(track, self._to_ns(end))

    def _write_steps(self) -> None:
        track = self.writer.add_track(self.process, "steps: compute, exchange, sync, host, link")
        steps = self.profile.steps
        for step in self.order:
            start, cycles, phase = float(self.starts[step]), float(steps.cycles[step]), steps.phase[step]
            details = {
                "step": step,
                "cycles": cycles,
                "executions_per_call": 1 if steps.per_call[step] else self.profile.executions(phase),
                "phase": phase,
                "name": steps.name[step],
                "tiles": int(steps.tiles[step]),
                "moved_bytes": int(steps.moved_bytes[step]),
                "flops": int(steps.flops[step]),
                "live_bytes": int(self.memory.live_by_step[step]),
            }
            self.writer.begin(track, self._to_ns(start), steps.kind[step], "step", details)
            self.writer.end(track, self._to_ns(start + cycles))

    def _write_memory(self) -> None:
        for name, values in (
            ("not always live, all tiles", self.memory.live_by_step),
            ("not always live, fullest tile", self.memory.fullest_by_step),
        ):
            track, before = self.writer.add_track(self.process, name, counts_bytes=True), -1
            for step in self.order:
                value = int(values[step])
                if value != before:
                    self.writer.count(track, self._to_ns(float(self.starts[step])), value)
                before = value

    def _find_path(self, step: int) -> tuple[tuple[str, ...], int]:
        """What a step lies in: its phase, with the stage in a pipeline, then modules; and its op."""
        steps = self.profile.steps
        phase, op = steps.phase[step], int(steps.op[step])
        staged = self.profile.pipeline is not None and phase != "update"
        outer = f"stage {steps.stage[step]} {phase}" if staged else phase
        module = self.profile.ops[op].module if op >= 0 else ""
        return (outer, *(module.split(".")[:DEEPEST] if module else ())), op

    def _name_op(self, op: int) -> str:
        return self.profile.ops[op].op.removeprefix("aten.").removesuffix(".default")

    def _describe_op(self, op: int, run: list[int]) -> dict[str, Any]:
        record = self.profile.ops[op]
        details: dict[str, Any] = {
            "op": op,
            "name": record.name,
            "module": record.module,
            "family": record.family,
            "cycles": float(self.profile.steps.cycles[run].sum()),
            "steps": len(run),
            "cost": record.provenance,
        }
        return {**details, "line": str(record.line)} if record.line is not None else details

    def _to_ns(self, cycles: float) -> int:
        return _to_ns(cycles, self.profile)


def _write_pipeline(writer: PacketWriter, profile: Profile, pipeline: PipelineRecord) -> None:
    """In tick t, stage p works on micro-batch t - p, and a tick lasts as long as its busiest IPU."""
    process = writer.add_process(f"pipeline of {profile.name}: micro-batches between two flushes (modelled)")
    tracks: dict[int, Track] = {}
    for stage in pipeline.stages:
        if stage.ipu not in tracks:
            tracks[stage.ipu] = writer.add_track(process, f"IPU {stage.ipu}")
    ticks = pipeline.micro_batches + len(pipeline.stages) - 1
    start = 0.0
    for tick in range(min(ticks, MOST_TICKS)):
        ends = dict.fromkeys(tracks, start)
        for stage in pipeline.stages:
            batch = tick - stage.index
            if not 0 <= batch < pipeline.micro_batches:
                continue
            passes = " and ".join(name for name in ("forward", "backward") if getattr(stage, name))
            name = f"stage {pipeline.number_of(stage)} {passes}, micro-batch {batch}"
            details = {"tick": tick, "micro_batch": batch, "cycles": stage.cycles}
            writer.begin(tracks[stage.ipu], _to_ns(ends[stage.ipu], profile), name, passes, details)
            ends[stage.ipu] += stage.cycles
            writer.end(tracks[stage.ipu], _to_ns(ends[stage.ipu], profile))
        start = max(ends.values())
    if ticks > MOST_TICKS:
        track = writer.add_track(process, "not shown")
        left = max(0.0, pipeline.total_cycles - start)
        details = {"cycles": left, "ticks": ticks - MOST_TICKS}
        writer.begin(track, _to_ns(start, profile), f"{ticks - MOST_TICKS:,} more ticks", "not shown", details)
        writer.end(track, _to_ns(start + left, profile))


def _to_ns(cycles: float, profile: Profile) -> int:
    """The time of a cycle: rounded where it stands, so that no error adds up."""
    return round(cycles * 1e9 / profile.timing.clock_hz)
