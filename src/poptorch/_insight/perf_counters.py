"""Host times of one call, as PopTorch's performance counters and latencies.

In: when each micro-batch passed each point on this host. Out: lists by tensor and step, and (minimum, maximum, average)
in seconds. They are measured here, not modelled: for an IPU's own times see `cycleCount()` and the profile.
"""

from __future__ import annotations

from collections.abc import Sequence

from openipu.run import MicroBatchTimes

Latency = tuple[float, float, float]
Counters = dict[str, list[list[float]]]

EMPTY: Counters = {"input": [[]], "input_complete": [[]], "output": [[]], "output_complete": [[]]}


def list_counters(
    times: Sequence[MicroBatchTimes], inputs: int, outputs: int, stored: Sequence[MicroBatchTimes]
) -> Counters:
    """Time stamps by [tensor][step]; all tensors of a micro-batch are handed over together."""
    return {
        "input": [[entry.inputs_asked for entry in times] for _ in range(inputs)],
        "input_complete": [[entry.inputs_ready for entry in times] for _ in range(inputs)],
        "output": [[entry.outputs_ready for entry in stored] for _ in range(outputs)],
        "output_complete": [[entry.outputs_stored for entry in stored] for _ in range(outputs)],
    }


def select_stored(times: Sequence[MicroBatchTimes], summed: bool, replicas: int) -> list[MicroBatchTimes]:
    """The micro-batches whose results came back; sums come back with the last of each replica."""
    return list(times)[-replicas:] if summed else [entry for entry in times if entry.stored]


def measure_round_trip(times: Sequence[MicroBatchTimes]) -> Latency:
    return _summarise([entry.outputs_stored - entry.inputs_asked for entry in times])


def measure_host_to_ipu(times: Sequence[MicroBatchTimes]) -> Latency:
    return _summarise([entry.inputs_ready - entry.inputs_asked for entry in times])


def measure_compute(times: Sequence[MicroBatchTimes]) -> Latency:
    return _summarise([entry.outputs_ready - entry.inputs_ready for entry in times])


def measure_ipu_to_host(times: Sequence[MicroBatchTimes]) -> Latency:
    return _summarise([entry.outputs_stored - entry.outputs_ready for entry in times])


def _summarise(seconds: Sequence[float]) -> Latency:
    if not seconds:
        return 0.0, 0.0, 0.0
    lowest, highest = min(seconds), max(seconds)
    average = sum(seconds) / len(seconds)
    return lowest, highest, min(max(average, lowest), highest)  # the sum of equal times may round past them
