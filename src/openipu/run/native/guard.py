"""The first lines of a compiling process: `python -P guard.py PARENT SCRATCH JOB STORE`.

In: the number of the process that it works for, its private folder, and what the worker needs. Out: the worker has run,
or was ended together with the compilers that it had started: because it was told to, or because its parent is gone,
killed perhaps. Runs before PyTorch is imported, which takes seconds, and so imports nothing outside of the standard
library.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import threading
import time
from types import FrameType

_LOOK_SECONDS = 0.5  # between two looks at the parent
_GRACE_SECONDS = 5.0  # for cleaning up


def watch_parent(parent: int) -> None:
    """Return when the parent is gone: the pipe that it holds is closed, or somebody else has adopted this process.

    A pipe alone is not enough: processes that the parent has forked hold its ends, too.
    """
    while os.getppid() == parent:
        readable, _, _ = select.select([sys.stdin], [], [], _LOOK_SECONDS)
        if readable and not os.read(sys.stdin.fileno(), 1):
            return


def install_guard(parent: int, scratch: str) -> None:
    """End with all children on SIGTERM, and when the parent ends."""

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        threading.Thread(target=insist, daemon=True).start()
        os.killpg(0, signal.SIGTERM)  # compilers; this process is deaf to it by now
        raise SystemExit(128 + number)

    def insist() -> None:
        time.sleep(_GRACE_SECONDS)
        shutil.rmtree(scratch, ignore_errors=True)
        os.killpg(0, signal.SIGKILL)

    def watch() -> None:
        watch_parent(parent)
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)
    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    parent, scratch, *rest = sys.argv[1:]
    try:
        if sys.platform != "win32" and os.getpgrp() == os.getpid():
            install_guard(int(parent), scratch)
        from openipu.run.native.worker import run_job

        run_job(scratch, *rest)
    finally:
        if os.getppid() != int(parent):  # nobody else will
            shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
