"""What a trace says in a few figures: which activity took how long, and what the loop of calls was made of.

In: a `HostTrace`. Out: a `SystemSummary`. Everything is measured on this host; nothing is modelled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from openipu.report.units import format_seconds, format_share
from openipu.trace import CAPTURE, COMPILE, DATA, PLAN, RUN, TRANSFER, WAIT
from openipu.trace.read import HostTrace, ThreadTrace

OWN_ORDER = (CAPTURE, PLAN, COMPILE, DATA, TRANSFER, RUN, WAIT)

_MUCH_WAITING = 0.15  # of the loop: worth a finding
_MUCH_UNMARKED = 0.4
_MUCH_COMPILING = 0.3  # of the whole run
_LEAST_CALLS = 5  # a loop of fewer calls says nothing


@dataclass(frozen=True, slots=True)
class Activity:
    """One channel over all threads. Time inside an event of another channel counts for that one."""

    channel: str
    events: int
    self_seconds: float
    share: float  # of the time from the first event to the last


@dataclass(frozen=True, slots=True)
class LabelTotal:
    """All events of one channel with the same label."""

    channel: str
    label: str
    events: int
    total_seconds: float
    self_seconds: float
    mean_seconds: float
    longest_seconds: float


@dataclass(frozen=True, slots=True)
class LoopShares:
    """The time between the begin of the first call and the end of the last, in the thread that calls."""

    calls: int
    seconds: float
    running: float  # shares of it
    waiting_for_data: float
    compiling: float
    unmarked: float  # in the user's own code, or in nothing that is marked


@dataclass(frozen=True, slots=True)
class SystemSummary:
    """The first page of the system report."""

    seconds: float
    processes: int
    threads: int
    events: int
    activities: tuple[Activity, ...]
    labels: tuple[LabelTotal, ...]
    loop: LoopShares | None
    findings: tuple[str, ...]


def summarise_trace(trace: HostTrace) -> SystemSummary:
    """The figures of a trace."""
    seconds = (trace.last_ns - trace.first_ns) / 1e9
    labels = _total_labels(trace)
    loop = _find_loop(trace)
    activities = _total_activities(labels, seconds)
    return SystemSummary(
        seconds=seconds,
        processes=len(trace.processes),
        threads=len(trace.list_threads()),
        events=trace.event_count,
        activities=activities,
        labels=labels,
        loop=loop,
        findings=tuple(_find_remedies(activities, loop, seconds)),
    )


def _total_labels(trace: HostTrace) -> tuple[LabelTotal, ...]:
    totals: dict[tuple[str, str], list[float]] = {}
    for thread in trace.list_threads():
        names = len(thread.names)
        keys = thread.channel * names + thread.label
        lasting = np.maximum(thread.duration_ns, 0)
        unique, place = np.unique(keys, return_inverse=True)
        counts = np.bincount(place)
        sums, own = np.bincount(place, lasting), np.bincount(place, thread.self_ns)
        longest = np.zeros(len(unique), dtype=np.int64)
        np.maximum.at(longest, place, lasting)
        for index, key in enumerate(unique.tolist()):
            entry = totals.setdefault((thread.names[key // names], thread.names[key % names]), [0, 0, 0, 0])
            entry[0] += int(counts[index])
            entry[1] += float(sums[index])
            entry[2] += float(own[index])
            entry[3] = max(entry[3], float(longest[index]))
    found = [
        LabelTotal(*key, int(count), total / 1e9, own / 1e9, total / 1e9 / count, longest / 1e9)
        for key, (count, total, own, longest) in totals.items()
    ]
    return tuple(sorted(found, key=lambda entry: -entry.self_seconds))


def _total_activities(labels: tuple[LabelTotal, ...], seconds: float) -> tuple[Activity, ...]:
    events: dict[str, int] = {}
    own: dict[str, float] = {}
    for entry in labels:
        events[entry.channel] = events.get(entry.channel, 0) + entry.events
        own[entry.channel] = own.get(entry.channel, 0.0) + entry.self_seconds
    ordered = [name for name in OWN_ORDER if name in events] + [name for name in events if name not in OWN_ORDER]
    return tuple(Activity(name, events[name], own[name], own[name] / seconds if seconds else 0.0) for name in ordered)


def _find_loop(trace: HostTrace) -> LoopShares | None:
    """Of the thread with the most calls."""
    best: tuple[int, ThreadTrace] | None = None
    for thread in trace.list_threads():
        calls = int(_select_outermost(thread, (RUN,)).sum())
        if calls and (best is None or calls > best[0]):
            best = calls, thread
    if best is None:
        return None
    calls, thread = best
    running = _select_outermost(thread, (RUN,))
    begin = int(thread.start_ns[running][0])
    end = int((thread.start_ns + thread.duration_ns)[running].max())
    whole = max(1, end - begin)
    running_share, waiting, compiling = (
        int(_clip(thread, _select_outermost(thread, channels), begin, end)) / whole
        for channels in ((RUN,), (DATA, WAIT), (CAPTURE, PLAN, COMPILE))
    )
    unmarked = max(0.0, 1 - running_share - waiting - compiling)
    return LoopShares(calls, whole / 1e9, running_share, waiting, compiling, unmarked)


def _select_outermost(thread: ThreadTrace, channels: tuple[str, ...]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Events of these channels that are inside no other activity of openipu's own."""
    own = np.array([name in OWN_ORDER for name in thread.names])
    wanted = np.array([name in channels for name in thread.names])
    chosen = np.zeros(len(thread), dtype=bool)
    inside = np.zeros(len(thread), dtype=bool)
    parents, is_own = thread.parents.tolist(), own[thread.channel]
    for place, parent in enumerate(parents):
        inside[place] = parent >= 0 and (inside[parent] or is_own[parent])
    chosen[:] = wanted[thread.channel] & ~inside & (thread.duration_ns > 0)
    return chosen


def _clip(thread: ThreadTrace, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]], begin: int, end: int) -> int:
    starts = np.maximum(thread.start_ns[chosen], begin)
    ends = np.minimum((thread.start_ns + thread.duration_ns)[chosen], end)
    return int(np.maximum(ends - starts, 0).sum())


def _find_remedies(activities: tuple[Activity, ...], loop: LoopShares | None, seconds: float) -> list[str]:
    """Sentences with the number, the cause and what to do."""
    found = []
    if loop is not None and loop.calls >= _LEAST_CALLS:
        if loop.waiting_for_data > _MUCH_WAITING:
            found.append(
                f"The loop of {loop.calls:,} calls spent {format_share(loop.waiting_for_data)} of its time waiting for "
                "data. Load in the background, with more workers, or take more batches per call: the fewer calls, the "
                "fewer waits."
            )
        if loop.unmarked > _MUCH_UNMARKED:
            found.append(
                f"{format_share(loop.unmarked)} of the loop of {loop.calls:,} calls passed between calls, in code that "
                "no trace point marks. Mark it with a channel of libpvti to see what it is."
            )
    making = sum(entry.self_seconds for entry in activities if entry.channel in (CAPTURE, PLAN, COMPILE))
    if seconds and making / seconds > _MUCH_COMPILING:
        found.append(
            f"{format_seconds(making)} of {format_seconds(seconds)} went into capture, planning and compilation. A "
            "second start takes less: plans and native code are kept in the cache."
        )
    return found
