"""What the kernel knows of this process: resident memory and its peak, and whether anything runs in the background.

In: nothing. Out: bytes and seconds. Linux only, as the benchmark is.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_IDLE_WINDOW_SECONDS = 0.4
_IDLE_SHARE = 0.1  # of one core; a process that compiles uses a whole one
_ENDED = "Z"  # a process that has ended, and whose parent has not asked yet


def read_resident_bytes() -> int:
    """Memory that this process holds now."""
    return _read_status("VmRSS")


def read_peak_bytes() -> int:
    """The most that it has held since the start, or since `reset_peak`."""
    return _read_status("VmHWM")


def reset_peak() -> None:
    """Let the peak start from what is held now."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def wait_until_idle(limit_seconds: float, alone: bool = False) -> bool:
    """Wait until this process and its descendants use no processor while nobody calls it; says whether they had.

    That is when background compilation has ended, however it is done, without a look into anyone's internals. `alone`:
    until there are no descendants either, which may wait for a processor.
    """
    deadline = time.perf_counter() + limit_seconds
    was_busy = False
    while time.perf_counter() < deadline:
        before = read_cpu_seconds(os.getpid())
        time.sleep(_IDLE_WINDOW_SECONDS)
        used = read_cpu_seconds(os.getpid()) - before
        if used < _IDLE_SHARE * _IDLE_WINDOW_SECONDS and not (alone and len(_read_family(os.getpid())) > 1):
            break
        was_busy = True
    return was_busy


def read_cpu_seconds(pid: int) -> float:
    """Processor time of a process and of all its descendants that live."""
    ticks = sum(int(values[11]) + int(values[12]) for values in _read_family(pid).values())
    return ticks / _TICKS_PER_SECOND


def list_descendants(pid: int) -> list[int]:
    """The processes that a process, or one of its descendants, has started and that have not ended."""
    return sorted(set(_read_family(pid)) - {pid})


def _read_family(pid: int) -> dict[int, list[str]]:
    """What the kernel says of a process and of its descendants that have not ended, by process number."""
    fields: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # The name of a process may hold brackets and spaces: what counts stands after the last bracket.
                fields[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it ended meanwhile
                continue
    family = {pid}
    grown = True
    while grown:
        found = {number for number, values in fields.items() if int(values[1]) in family} - family
        family |= found
        grown = bool(found)
    return {number: fields[number] for number in family if number in fields and fields[number][0] != _ENDED}


def _read_status(name: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no line {name}: the benchmark needs Linux.")
