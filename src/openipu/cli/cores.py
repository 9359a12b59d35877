"""Cores that this process may use, and how many of them other programs leave free."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

_QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container: "200000 100000" are two cores, "max 100000" is no limit


@dataclass(frozen=True, slots=True)
class Cores:
    """allowed: by affinity and by the container's quota. machine: of all. load: programs that run on the machine."""

    allowed: int
    machine: int
    load: float

    @property
    def free(self) -> int:
        return max(0, min(self.allowed, round(self.machine - self.load)))


def count_cores(quota: Path = _QUOTA) -> Cores:
    machine = os.cpu_count() or 1
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else machine
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return Cores(min(allowed, _read_quota(quota) or allowed), machine, load)


def _read_quota(file: Path) -> int | None:
    try:
        share, period = file.read_text().split()
        return max(1, math.floor(int(share) / int(period)))
    except (OSError, ValueError):  # no container, no limit, or another system
        return None
