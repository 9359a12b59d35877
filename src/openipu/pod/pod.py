"""A pod that programs attach to.

In: a description, the partition to use, a state directory. Out: leases on IPUs, and the list of who holds what. A pod
that was set up gives every IPU to one program at a time. The open pod, where nobody set one up, only writes down
who uses what: programs that do not know of each other never wait for each other.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from openipu.errors import PodError
from openipu.pod.attachment import Attachment, Lease, describe_self, list_attachments, write_attachment
from openipu.pod.description import Partition, PodDescription
from openipu.store.locks import hold_file

LARGEST_LEASE = 64  # more IPUs than this need several host processes
LONGEST_WAIT_SECONDS = 2.0  # between two looks
_FIRST_WAIT_SECONDS = 0.05


class Pod:
    """One partition of a pod, as a program or a tool sees it."""

    def __init__(self, description: PodDescription, partition: Partition, directory: Path) -> None:
        self.description = description
        self.partition = partition
        self.directory = directory

    @property
    def open(self) -> bool:
        return self.description.open

    def list_attachments(self, *, all_partitions: bool = False) -> list[Attachment]:
        """Who holds IPUs now."""
        if not self.directory.is_dir():
            return []
        try:
            with hold_file(self.directory / "lock"):
                found = list_attachments(self.directory)
        except OSError as error:
            raise PodError(f"Cannot read the state of the pod in {self.directory}: {error.strerror}.") from error
        return [one for one in found if all_partitions or one.partition == self.partition.name]

    def attach(
        self, ipus: int, first: int | None = None, *, program: str = "", installed: int | None = None
    ) -> Lease | None:
        """Take neighbouring IPUs, those from `first` on if it matters which; None if they are taken.

        `installed` limits the open pod to so many IPUs for this process.
        """
        size = installed if self.open else self.partition.ipus
        if size is not None and (ipus > size or (first is not None and first + ipus > size)):
            which = f"IPUs {first} to {first + ipus - 1}" if first is not None else f"{ipus} IPUs"
            raise PodError(
                f"{which} were asked for, and partition {self.partition.name} has {size}. Use fewer IPUs, or a larger "
                "partition (`openipu pod create`)."
            )
        chosen = first is not None or installed is not None
        try:
            lease, own_rivals = self._try_to_attach(ipus, first, size, program, chosen)
            if lease is None and own_rivals:
                gc.collect()  # programs that nobody uses any more may still hold IPUs
                lease, _ = self._try_to_attach(ipus, first, size, program, chosen)
            return lease
        except OSError as error:
            if not self.open:
                raise PodError(
                    f"Cannot write to the state of the pod in {self.directory}: {error.strerror}. "
                    "Set OPENIPU_STATE_DIR to a directory of yours."
                ) from error
            # Without a home to write to, a program of the open pod runs all the same, unseen.
            return Lease(describe_self(self.partition.name, first or 0, ipus, program, chosen), None, None)

    def _try_to_attach(
        self, ipus: int, first: int | None, size: int | None, program: str, chosen: bool
    ) -> tuple[Lease | None, bool]:
        """A lease if there is room; if not, whether this process itself stands in the way."""
        with hold_file(self.directory / "lock"):
            held = self._list_rivals(list_attachments(self.directory), chosen)
            start = _find_room(held, ipus, first, size)
            if start is None:
                return None, any(one.pid == os.getpid() for one in held)
            own = describe_self(self.partition.name, start, ipus, program, chosen)
            return write_attachment(self.directory, own), False

    def wait(
        self,
        attach: Callable[[], Lease | None],
        timeout_seconds: float | None = None,
        report: Callable[[], None] = lambda: None,
    ) -> Lease | None:
        """Try again until there is room; None after `timeout_seconds`. `report` is called before each pause."""
        end = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        pause = _FIRST_WAIT_SECONDS
        while True:
            lease = attach()
            if lease is not None or (end is not None and time.monotonic() >= end):
                return lease
            report()
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_WAIT_SECONDS)

    def describe_rivals(self, ipus: int, first: int | None = None) -> str:
        """Who is in the way, for a message."""
        held = self._list_rivals(self.list_attachments(), self.open)
        if first is not None:
            held = [one for one in held if not set(one.numbers).isdisjoint(range(first, first + ipus))]
        parts = [f"process {one.pid} ({_shorten(one.command)}) holds {_name_range(one)}" for one in held]
        return "; ".join(parts) or "it was free a moment later"

    def _list_rivals(self, held: list[Attachment], choosy: bool) -> list[Attachment]:
        """Attachments that stand in the way. In the open pod, choosy models of one process compete with each other."""
        held = [one for one in held if one.partition == self.partition.name]
        if self.open and choosy:
            return [one for one in held if one.chosen and one.pid == os.getpid()]
        return held


def _find_room(held: Iterable[Attachment], ipus: int, first: int | None, size: int | None) -> int | None:
    taken = {number for one in held for number in one.numbers}
    if first is not None:
        return first if taken.isdisjoint(range(first, first + ipus)) else None
    end = size if size is not None else max(taken, default=-1) + 2 * ipus
    for start in range(0, end - ipus + 1, ipus):
        if taken.isdisjoint(range(start, start + ipus)):
            return start
    return None


def _shorten(command: str, longest: int = 60) -> str:
    return command if len(command) <= longest else command[: longest - 1] + "…"


def _name_range(attachment: Attachment) -> str:
    last = attachment.first + attachment.ipus - 1
    return f"IPU {attachment.first}" if attachment.ipus == 1 else f"IPUs {attachment.first} to {last}"
