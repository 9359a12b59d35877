"""Which program holds which IPU: a pool of numbered IPUs that programs of one process share.

In: how many IPUs a program wants, and the first one if it matters which. Out: a `Lease` on neighbouring IPUs, or None
when they are taken. Nothing is reserved outside this process.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

LARGEST_LEASE = 64  # more IPUs than this need several host processes


@dataclass(frozen=True, eq=False)
class Lease:
    """IPUs `first` to `first + ipus - 1`, until they are given back."""

    first: int
    ipus: int


class IpuPool:
    """Numbered IPUs. `size` None: as many as are asked for, so that only a wish for certain IPUs can fail."""

    def __init__(self, size: int | None = None) -> None:
        self.size = size
        self._leases: list[Lease] = []
        self._lock = threading.Lock()

    def find(self, ipus: int, first: int | None = None) -> int | None:
        """The first IPU that a lease would begin with now."""
        taken = {number for lease in self._leases for number in range(lease.first, lease.first + lease.ipus)}
        starts = [first] if first is not None else range(0, (self.size or len(taken) * ipus + ipus) - ipus + 1, ipus)
        for start in starts:
            beyond = self.size is not None and start + ipus > self.size
            if not beyond and taken.isdisjoint(range(start, start + ipus)):
                return start
        return None

    def acquire(self, ipus: int, first: int | None = None) -> Lease | None:
        """Take IPUs; None when those that are wanted are taken or not there."""
        with self._lock:
            start = self.find(ipus, first)
            if start is None:
                return None
            lease = Lease(start, ipus)
            self._leases.append(lease)
            return lease

    def release(self, lease: Lease) -> None:
        """Give IPUs back; a second time does nothing."""
        with self._lock:
            self._leases = [other for other in self._leases if other is not lease]
