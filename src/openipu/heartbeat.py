"""Signs of life of a job's instances, so that its launcher tells one that is frozen from one that is busy.

In: the environment that a launcher sets. Out: a file for each instance, locked by the process that beats, with its id
and a count. A process that ended gave up the lock; one that holds it while its count stands still is stopped, or
starved. Free of torch.
"""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

if sys.platform != "win32":
    import fcntl

VARIABLE = "OPENIPU_HEARTBEAT"  # seconds between beats, a colon, the directory of the files

_RANK_VARIABLE = "RANK"  # as torchrun numbers instances
_PREFIX = "heartbeat."
_started = threading.Lock()


@dataclass(frozen=True, slots=True)
class Beat:
    """What an instance's file says while its process holds the lock."""

    instance: int
    pid: int
    count: int


def start_heartbeat() -> bool:
    """Beat from now on, in a thread, if a launcher listens; says whether it was started. A second call does nothing."""
    seconds, colon, directory = os.environ.get(VARIABLE, "").partition(":")
    rank = os.environ.get(_RANK_VARIABLE, "")
    if sys.platform == "win32" or not colon or not rank.isdigit() or not _started.acquire(blocking=False):
        return False
    try:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        descriptor = os.open(Path(directory) / f"{_PREFIX}{rank}", flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # the process that started this one beats already
            os.close(descriptor)
            return False
    except OSError:  # the launcher is gone
        return False
    threading.Thread(target=_beat, args=(descriptor, float(seconds)), name="heartbeat", daemon=True).start()
    return True


def read_beats(directory: Path) -> list[Beat]:
    """The instances that beat now, or would if they were not frozen."""
    found = []
    for path in sorted(directory.glob(f"{_PREFIX}*")):
        beat = _read_beat(path)
        if beat is not None:
            found.append(beat)
    return found


def _beat(descriptor: int, seconds: float) -> None:
    count, pause = 0, threading.Event()
    while True:
        count += 1
        os.pwrite(descriptor, f"{os.getpid()} {count}\n".encode(), 0)
        pause.wait(seconds)


def _read_beat(path: Path) -> Beat | None:
    """None where no process holds the lock."""
    try:
        with path.open("rb") as file:
            try:
                fcntl.flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                pid, count = (int(word) for word in file.read(100).splitlines()[0].split())
                return Beat(int(path.name.removeprefix(_PREFIX)), pid, count)
    except (OSError, ValueError, IndexError):  # removed, or about to be written for the first time
        pass
    return None
