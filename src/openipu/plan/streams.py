"""Pass "stream": what crosses the host link for every micro-batch, and what replicas exchange before an update.

The host prefetches: a stream costs the way from the board to the IPU, and where the host link is slower than the
program, the IPU waits for the difference. On I/O tiles streams run beside the computation and cost such a wait, and
the way between those tiles and the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from openipu.graph import OutputMode, Phase, RunOptions, TensorRole
from openipu.machine import System
from openipu.ops.cost import StepKind
from openipu.plan.collectives import count_all_reduce_cycles, count_share_cycles
from openipu.plan.pipeline import measure_micro_batch
from openipu.plan.types import PlannedStep
from openipu.plan.work import Place, Stream, Workload

HOST_WAIT = "wait for the host"


def add_streams(workload: Workload, system: System, options: RunOptions) -> None:
    """Inputs, results, and the reduction of gradients over replicas."""
    if not options.synthetic_data:
        _add_host_streams(workload, system, options)
    if options.replicas * options.instances > 1:
        for ipu, size in sorted(workload.gradient_bytes.items()):
            workload.reductions.append(_reduce_gradients(ipu, size, workload.ipus, system, options))


def _add_host_streams(workload: Workload, system: System, options: RunOptions) -> None:
    start = Place(0, 0, Phase.FORWARD)
    for storage in workload.inputs:
        place = storage.place or start
        where = Place(place.ipu, place.stage, Phase.FORWARD)
        stream = _make_stream(f"read {storage.name}", storage.operand.bytes, where, system, options)
        workload.streams_in.append(stream)
    for index, (leaf, value) in enumerate(workload.results):
        choice = options.choice_of(leaf)
        mode, period = (choice.mode, choice.period) if choice else (options.output_mode, options.output_period)
        per_call = mode in (OutputMode.FINAL, OutputMode.SUM)
        place = value.storage.place or start
        size = -(-value.operand.bytes // (period if mode is OutputMode.EVERY_N else 1))  # on average over micro-batches
        stream = _make_stream(f"write output {index}", size, place, system, options, per_call)
        workload.streams_out.append(stream)


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
    cycles = _to_cycles(size, system.stream_bytes_per_second, system)
    if options.overlapped_io:
        cycles = _cross_chip(size, system, options)
    return Stream(StepKind.HOST, name, size, cycles, place, per_call)


def _cross_chip(size: int, system: System, options: RunOptions) -> float:
    """Cycles from I/O tiles to the tiles that compute, or back: each I/O tile sends as fast as a tile can."""
    return size / (max(1, options.io_tiles) * system.target.exchange_bytes_per_cycle)


def _reduce_gradients(ipu: int, size: int, ipus: int, system: System, options: RunOptions) -> Stream:
    """An all-reduce over the replicas; where each keeps a share of the optimizer's state, its sums are enough."""
    count = options.replicas * options.instances
    place = Place(ipu, 0, Phase.UPDATE)
    shares = options.location_of(TensorRole.OPTIMIZER).replicated_sharding
    count_cycles = count_share_cycles if shares else count_all_reduce_cycles
    cycles = count_cycles(size, count, ipus, system)
    if system.ipu_link_bytes_per_second <= 0:
        return Stream(StepKind.HOST, "all-reduce gradients over the host", size, cycles, place)
    name = "reduce gradients to shares" if shares else "all-reduce gradients"
    return Stream(StepKind.LINK, name, size, cycles, place)


def _to_cycles(size: float, bytes_per_second: float, system: System) -> float:
    return size / bytes_per_second * system.target.clock_hz
