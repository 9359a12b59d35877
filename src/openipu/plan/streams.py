"""Pass "stream": what crosses the host link for every micro-batch, and what replicas exchange before an update.

The host prefetches: a stream costs the way from the board to the IPU, and where the host link is slower than the
program, the IPU waits for the difference. On I/O tiles streams run beside the computation and cost only such a wait.
"""

from __future__ import annotations

from collections.abc import Sequence

from openipu.graph import OutputMode, Phase, RunOptions
from openipu.machine import System
from openipu.ops.cost import StepKind
from openipu.plan.pipeline import measure_micro_batch
from openipu.plan.types import PlannedStep
from openipu.plan.work import Place, Stream, Workload

HOST_WAIT = "wait for the host"


def add_streams(workload: Workload, system: System, options: RunOptions) -> None:
    """Inputs, results, and the reduction of gradients over replicas."""
    start = Place(0, 0, Phase.FORWARD)
    for storage in workload.inputs:
        place = storage.place or start
        where = Place(place.ipu, place.stage, Phase.FORWARD)
        stream = _make_stream(f"read {storage.name}", storage.operand.bytes, where, system, options)
        workload.streams_in.append(stream)
    per_call = options.output_mode in (OutputMode.FINAL, OutputMode.SUM)
    period = options.output_period if options.output_mode is OutputMode.EVERY_N else 1
    for index, value in enumerate(workload.results):
        place = value.storage.place or start
        size = -(-value.operand.bytes // period)  # on average over micro-batches
        stream = _make_stream(f"write output {index}", size, place, system, options, per_call)
        workload.streams_out.append(stream)
    if options.replicas > 1:
        for ipu, size in sorted(workload.gradient_bytes.items()):
            workload.reductions.append(_reduce_gradients(ipu, size, system, options))


def find_host_wait(workload: Workload, steps: Sequence[PlannedStep], system: System, options: RunOptions) -> float:
    """How much longer the host needs for one micro-batch than the IPUs do, their share of an update included."""
    streams = [stream for stream in (*workload.streams_in, *workload.streams_out) if not stream.per_call]
    ways = [
        sum(stream.moved_bytes for stream in way if not stream.per_call)
        for way in (workload.streams_in, workload.streams_out)
    ]
    needed_cycles = _to_cycles(max(ways), system.host_bytes_per_second, system)  # both ways at once
    if options.overlapped_io:
        hidden = [_to_cycles(stream.moved_bytes, system.stream_bytes_per_second, system) for stream in streams]
        needed_cycles = max(needed_cycles, sum(hidden))
    busy = measure_micro_batch(steps, options, workload.last_stage)
    if needed_cycles <= busy.cycles + busy.update_cycles / options.gradient_accumulation:
        return 0.0
    return needed_cycles - busy.first_ipu_cycles - busy.update_cycles / options.gradient_accumulation


def _make_stream(
    name: str, size: int, place: Place, system: System, options: RunOptions, per_call: bool = False
) -> Stream:
    cycles = 0.0 if options.overlapped_io else _to_cycles(size, system.stream_bytes_per_second, system)
    return Stream(StepKind.HOST, name, size, cycles, place, per_call)


def _reduce_gradients(ipu: int, size: int, system: System, options: RunOptions) -> Stream:
    """A ring over the replicas: each sends and receives all but its own share twice."""
    count = options.replicas
    sent_bytes = 2 * (count - 1) / count * size
    place = Place(ipu, 0, Phase.UPDATE)
    if system.ipu_link_bytes_per_second <= 0:  # cards without links reduce over the host
        cycles = _to_cycles(sent_bytes, system.host_bytes_per_second, system)
        return Stream(StepKind.HOST, "all-reduce gradients over the host", size, cycles, place)
    cycles = _to_cycles(sent_bytes, system.ipu_link_bytes_per_second, system)
    return Stream(StepKind.LINK, "all-reduce gradients", size, cycles, place)


def _to_cycles(size: float, bytes_per_second: float, system: System) -> float:
    return size / bytes_per_second * system.target.clock_hz
