"""Ends a job of which an instance is frozen: neither dead, which torchrun sees, nor alive, so that all others wait.

In: the directory of the instances' heartbeats, and how long an instance may give none. Out: a frozen instance is named
and killed; torchrun then stops the others. Looks are counted, not seconds: when the launcher itself was stopped, or the
machine slept, nobody is blamed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from openipu.heartbeat import VARIABLE, Beat, read_beats

LOOKS = 10  # without a beat, until an instance counts as frozen


class Watch:
    """What was seen of each instance."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen: dict[int, tuple[Beat, int]] = {}  # instance -> its last beat, and how many looks found no newer one

    def look(self) -> list[Beat]:
        """Look once; those that have not beaten in the last `LOOKS` looks come back."""
        seen = {}
        for beat in read_beats(self._directory):
            last, looks = self._seen.get(beat.instance, (None, 0))
            seen[beat.instance] = (beat, looks + 1 if beat == last else 0)
        self._seen = seen
        return [beat for beat, looks in seen.values() if looks >= LOOKS]


@contextmanager
def watch_instances(directory: Path, timeout_seconds: float) -> Iterator[None]:
    """While the block runs, kill instances that freeze. A time-out of 0 lets them hang."""
    if timeout_seconds <= 0 or sys.platform == "win32":
        yield
        return
    pause = timeout_seconds / LOOKS
    os.environ[VARIABLE] = f"{pause}:{directory}"  # instances inherit it
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(directory, timeout_seconds, ended), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
        del os.environ[VARIABLE]


def _watch(directory: Path, timeout_seconds: float, ended: threading.Event) -> None:
    watch = Watch(directory)
    while not ended.wait(timeout_seconds / LOOKS):
        for beat in watch.look():
            sys.stderr.write(
                f"poprun: instance {beat.instance} (process {beat.pid}) has given no sign of life for "
                f"{timeout_seconds:g} seconds: it is frozen (stopped, or starved of memory), and is killed. "
                "--instance-timeout says how long to wait; 0 is for ever.\n"
            )
            with contextlib.suppress(ProcessLookupError):
                os.kill(beat.pid, signal.SIGKILL)  # a stopped process takes no other signal
