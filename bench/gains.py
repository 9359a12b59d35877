"""Two models or none: which workloads gain from each pass and from each kernel: `make bench-gains`, 15 minutes.

In: the workloads of `gain_workloads.py`. Out: `bench/gains.json`. A workload is made twice in one process, with
everything and with one pass switched off, or one kernel missing; only where that changes its graph. Steps take turns,
and the ratio of each round is without over with. Where steps are not faster, peak memory is compared, and the first
call where a pass only makes graphs smaller. The search for a pass ends once workloads of two families gain. Those of
the file are tried first. With one thread, its processor time counts: other programs that run disturb less.

    python -m bench.gains [--only NAME …] [--workloads NAME …] [--threads 1] [--minutes 15] [--tries 12] [--list]
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import math
import platform
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench.gain_subjects import NAMES, Subject
from bench.gain_workloads import WORKLOADS, Workload
from bench.ratios import Spread, compare, show
from bench.turns import Budget, Player, Seconds, take_turns
from openipu.run import Executable
from openipu.run.rewrites.simplify import PASSES

RESULTS = Path(__file__).parent / "gains.json"
FAMILIES = 2
TIME, MEMORY, FIRST_CALL = "time", "peak memory", "first call"
LEAST = {TIME: 1.01, MEMORY: 1.02, FIRST_CALL: 1.03}  # of the median: less is not worth its code
TURN_SECONDS = 0.04
GLANCE = Budget(rounds=5, minimum_rounds=5)
LOOK = Budget(rounds=16, minimum_rounds=6, seconds=1.5)
CALLS = Budget(rounds=9, minimum_rounds=5, seconds=3.0)
SMALLER_GRAPHS = frozenset(entry.name for entry in PASSES)


def measure(subject: Subject, name: str) -> tuple[str, Spread]:
    """What a workload gains, and how much: without over with."""
    ways = {"without": subject.make(name), "with": subject.make()}
    spread = measure_time(subject, ways)
    if is_gain(TIME, spread):
        return TIME, spread
    peaks = {way: measure_peak(partial(executable.run, subject.leaves)) for way, executable in ways.items()}
    ratio = peaks["without"] / max(1, peaks["with"])
    if is_gain(MEMORY, found := Spread(ratio, ratio, ratio, 1)) and spread.upper >= 1:
        return MEMORY, found
    if name not in SMALLER_GRAPHS:
        return TIME, spread
    calls = {
        way: Player(partial(_time, partial(subject.make, *left))) for way, left in (("without", [name]), ("with", []))
    }
    if is_gain(FIRST_CALL, found := _compare(take_turns(calls, CALLS))):
        return FIRST_CALL, found
    return TIME, spread


def is_gain(measured: str, found: Spread) -> bool:
    """Whether nearly every round gained, and enough."""
    return found.lower > 1.0 and found.median >= LEAST[measured]


def measure_time(subject: Subject, ways: dict[str, Executable]) -> Spread:
    def play(executable: Executable, steps: int) -> float:
        executable.run(subject.leaves)  # brings back what the other one took the place of
        return _time(lambda: [executable.run(subject.leaves) for _ in range(steps)]) / steps

    fastest = min(play(executable, 2) for executable in ways.values())
    steps = max(1, math.ceil(TURN_SECONDS / fastest))
    players = {way: Player(partial(play, executable, steps)) for way, executable in ways.items()}
    found = take_turns(players, GLANCE)
    if _compare(found).median > 1.0:
        more = take_turns(players, LOOK)
        found = {way: [*found[way], *more[way]] for way in found}
    return _compare(found)


def measure_peak(call: Callable[[], object]) -> int:
    """The most that PyTorch's allocator holds on top of what it held before the call."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        call()
    results = profile.profiler.kineto_results if profile.profiler is not None else None
    assert results is not None
    events = [event for event in results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


def _compare(seconds: Seconds) -> Spread:
    found = compare(seconds["without"], seconds["with"])
    assert found is not None
    return found


def _time(call: Callable[[], object]) -> float:
    clock = time.thread_time if torch.get_num_threads() == 1 else time.perf_counter
    started = clock()
    call()
    return clock() - started


class Results:
    """The file: a list of entries for each pass and kernel."""

    def __init__(self, path: Path = RESULTS) -> None:
        self._path = path
        self.entries: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}

    def note(self, name: str, workload: Workload, measured: str, found: Spread) -> None:
        """Put one measurement in the place of an older one."""
        self.entries.setdefault(name, {})[workload.name] = {
            "family": workload.family,
            "measured": measured,
            "gains": is_gain(measured, found),
            **{key: round(value, 4) for key, value in dataclasses.asdict(found).items()},
            "machine": f"{_read_processor()}, {torch.get_num_threads()} threads",
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        }
        self._path.write_text(json.dumps(self.entries, indent=1, sort_keys=True) + "\n")


def _read_processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())


class Search:
    """Which workloads gain from each pass and kernel, until two families do."""

    def __init__(self, names: Sequence[str], results: Results, tries: int) -> None:
        self._results, self._tries = results, dict.fromkeys(names, tries)
        self.families: dict[str, set[str]] = {name: set() for name in names}
        self._known = {
            name: {workload for workload, entry in found.items() if entry["gains"]}
            for name, found in results.entries.items()
        }

    def examine(self, workload: Workload, known: bool) -> None:
        """Measure what is open still. `known`: what this workload is known to gain from, or all else."""
        wanted = [
            name
            for name, families in self.families.items()
            if len(families) < FAMILIES
            and workload.family not in families
            and self._tries[name] > 0
            and (workload.name in self._known.get(name, ())) is known
        ]
        subject = Subject(workload) if wanted else None
        for name in wanted:
            if subject is None or name not in subject.changes:
                continue
            measured, found = measure(subject, name)
            self._results.note(name, workload, measured, found)
            self._tries[name] -= 1
            if is_gain(measured, found):
                self.families[name].add(workload.family)
            print(f"{name} | {workload.name} | {measured} | {show(found, form='.3f')}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--workloads", nargs="+", choices=tuple(WORKLOADS), default=tuple(WORKLOADS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--tries", type=int, default=12, help="workloads at most for each pass or kernel")
    parser.add_argument("--json", type=Path, default=RESULTS, help="the results file")
    parser.add_argument("--list", action="store_true", help="measure nothing: say what changes each workload")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    search, ends = Search(arguments.only, Results(arguments.json), arguments.tries), time.monotonic()
    ends += 60 * arguments.minutes
    for known in (True, False):
        for workload in (WORKLOADS[name] for name in arguments.workloads):
            if time.monotonic() > ends:
                break
            try:
                if not arguments.list:
                    search.examine(workload, known)
                elif known:
                    print(f"{workload.name}: {'; '.join(sorted(Subject(workload).changes & set(NAMES)))}", flush=True)
            except Exception as error:  # the others go on
                print(f"{workload.name} failed: {type(error).__name__}: {error}"[:500], flush=True)
    for name, families in search.families.items():
        if len(families) < FAMILIES:
            print(f"not enough: {name} ({', '.join(sorted(families)) or 'nobody'})")


if __name__ == "__main__":
    main()
