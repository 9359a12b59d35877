"""The process that compiles one library: `python -I -S guard.py PARENT SCRATCH JOB`.

In: the number of the process that it works for, its private folder, and a file with commands. Out: the library is there
and was loaded once, by a third process; or a line says why not. It ends together with the compilers that it has
started: when it is told to, or when its parent is gone, killed perhaps. Nothing outside of the standard library is
imported.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

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


def run_job(job: dict[str, Any]) -> int:
    """Try the commands until one succeeds, then the check. What they say goes to the log."""
    for command in job["commands"]:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
        if done.returncode == 0:
            break
        lines = [line for line in done.stderr.splitlines() if "error" in line] or done.stderr.strip().splitlines()
        print((lines or [f"{command[0]} failed without a word"])[0], file=sys.stderr)
    else:
        return 3
    checked = subprocess.run(job["check"], stdin=subprocess.DEVNULL).returncode
    if checked < 0:
        print("the library cannot be used: loading it ends the process", file=sys.stderr)
    return 0 if checked == 0 else 3


def main() -> int:
    parent, scratch, job_file = sys.argv[1:]
    try:
        if sys.platform != "win32" and os.getpgrp() == os.getpid():
            install_guard(int(parent), scratch)
        return run_job(json.loads(Path(job_file).read_text(encoding="utf-8")))
    finally:
        if os.getppid() != int(parent):  # nobody else will
            shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
