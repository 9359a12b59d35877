"""One program's hold on IPUs: a locked file in the pod's directory.

In: what to write down of a program. Out: a `Lease` that ends when it is released, or with the process: the lock belongs
to an open file, so even `kill -9` leaves nothing attached. What the file says counts only while it is locked.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
import sys
import time
import weakref
from dataclasses import asdict, dataclass
from pathlib import Path

from openipu.errors import PodError
from openipu.files.documents import read_json
from openipu.files.origin import Origin
from openipu.store.locks import FileLock, take_lock

ENDING = ".attached"
_LARGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Attachment:
    """Who holds which IPUs of a partition, since when."""

    partition: str
    first: int  # in the partition
    ipus: int
    pid: int
    command: str
    user: str
    host: str
    started: float  # seconds as of `time.time`
    program: str = ""  # the name of the model
    chosen: bool = False  # these very IPUs were asked for

    @property
    def numbers(self) -> range:
        return range(self.first, self.first + self.ipus)


class Lease:
    """IPUs `first` to `first + ipus - 1`, until they are given back."""

    def __init__(self, attachment: Attachment, path: Path | None, lock: FileLock | None) -> None:
        self.attachment = attachment
        self._path = path
        self._lock = lock
        self._owner = os.getpid()
        _held.add(self)

    @property
    def first(self) -> int:
        return self.attachment.first

    @property
    def ipus(self) -> int:
        return self.attachment.ipus

    @property
    def held(self) -> bool:
        return self._lock is not None

    def release(self) -> None:
        """Give IPUs back; a second time does nothing."""
        lock, self._lock = self._lock, None
        if lock is None:
            return
        if self._path is not None and os.getpid() == self._owner:
            self._path.unlink(missing_ok=True)  # while it is locked: nobody takes it for another one's
        lock.release()


_held: weakref.WeakSet[Lease] = weakref.WeakSet()


def _let_go_in_child() -> None:
    """A forked child, such as a data loader's worker, must not keep IPUs attached when its parent is gone."""
    for lease in list(_held):
        lease.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)


def describe_self(partition: str, first: int, ipus: int, program: str, chosen: bool) -> Attachment:
    """What this process writes down of itself."""
    command = " ".join(getattr(sys, "orig_argv", None) or sys.argv)
    host, now = socket.gethostname(), time.time()
    return Attachment(partition, first, ipus, os.getpid(), command, _read_user(), host, now, program, chosen)


def write_attachment(directory: Path, attachment: Attachment) -> Lease:
    """Make and lock the file. To be called while the pod's own lock is held."""
    path = directory / f"{attachment.pid}-{time.monotonic_ns()}{ENDING}"
    lock = take_lock(path)
    assert lock is not None
    path.write_text(json.dumps(asdict(attachment)), encoding="utf-8")
    return Lease(attachment, path, lock)


def list_attachments(directory: Path) -> list[Attachment]:
    """All that are held now; files of programs that are gone are removed. To be called under the pod's lock."""
    found = []
    for path in sorted(directory.glob(f"*{ENDING}")):
        try:
            lock = take_lock(path, shared=True, wait=False)
        except OSError:  # released in between
            continue
        if lock is not None:  # nobody holds it: its program is gone
            path.unlink(missing_ok=True)
            lock.release()
            continue
        attachment = _read_attachment(path)
        if attachment is not None:
            found.append(attachment)
    return sorted(found, key=lambda attachment: (attachment.partition, attachment.first, attachment.started))


def _read_attachment(path: Path) -> Attachment | None:
    try:
        return read_json(path, Attachment, Origin(str(path), PodError, ""), _LARGEST)
    except PodError:  # gone, or of another version
        return None


def _read_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"
