"""The process that compiles: how it is started, kept out of the program's way, and stopped with its children.

In: a job file in a private folder. Out: a `CompilerProcess`. It stays in the program's session: a session of its own
would be a scheduling group of its own, with half of the machine whatever its priority, and the program's threads would
wait for each other at every barrier. A process group is enough to stop it together with its compilers. In the
background it runs at a low priority, which its children inherit: it gets what the program leaves over, and a
twenty-fifth of a core where that is nothing. At idle priority it would get nothing there, and never end.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import weakref
from enum import StrEnum
from pathlib import Path

from openipu.run.kernels.scratch import Scratch

_GUARD = Path(__file__).with_name("guard.py")
_PATIENCE_SECONDS = 1.0  # for a compiler that was asked to end: one that gets no idle time does not even notice
_DYING_SECONDS = 5.0  # for one that was killed, which takes time on a busy machine, too
# Above that of the program: beside a thread that never sleeps, 45 of 1,024 + 45 parts of a core (the kernel's weights).
_FURTHER_NICENESS = 14
_MOST_NICENESS = 19


class Priority(StrEnum):
    """How far a process was taken back."""

    LOW = "low priority"  # a small share of what the program uses, and all that it leaves over
    IDLE = "idle priority"  # what it leaves over alone
    NORMAL = "normal priority"  # the system allows nothing else


def make_environment(scratch: Scratch) -> dict[str, str]:
    """The environment of a compiler: nothing that it writes lies outside of the private folder."""
    temporary = str(scratch.make_folder("tmp"))
    return {**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), temporary), "LC_ALL": "C"}


def lower_priority(pid: int) -> Priority:
    """Let a process, and whatever it starts from now on, run far below this one; idle, where this one is far down."""
    with contextlib.suppress(OSError, AttributeError):
        niceness = os.getpriority(os.PRIO_PROCESS, 0) + _FURTHER_NICENESS
        os.setpriority(os.PRIO_PROCESS, pid, min(niceness, _MOST_NICENESS))
        policy = os.SCHED_BATCH if niceness <= _MOST_NICENESS else os.SCHED_IDLE  # Linux
        os.sched_setscheduler(pid, policy, os.sched_param(0))
    return read_priority(pid)


def read_priority(pid: int) -> Priority:
    """What the system says, not what was asked for."""
    with contextlib.suppress(OSError, AttributeError):
        if os.getpriority(os.PRIO_PROCESS, pid) >= os.getpriority(os.PRIO_PROCESS, 0) + _FURTHER_NICENESS:
            return Priority.LOW
        if os.sched_getscheduler(pid) == os.SCHED_IDLE:
            return Priority.IDLE
    return Priority.NORMAL


class CompilerProcess:
    """A running compiler. It ends with `stop`, with this object, and with this process, however that ends."""

    def __init__(self, scratch: Scratch, arguments: list[str], log: Path, *, background: bool) -> None:
        # Isolated, and without packages of the environment: it starts in milliseconds.
        command = [sys.executable, "-I", "-S", str(_GUARD), str(os.getpid()), str(scratch.path), *arguments]
        with log.open("wb") as stream:
            # The compiler reads nothing: the end of its input tells it that this process is gone.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=stream,
                stderr=stream,
                env=make_environment(scratch),
                process_group=0 if hasattr(os, "killpg") else None,
            )
        self.priority = lower_priority(self._process.pid) if background else Priority.NORMAL
        self.stop = weakref.finalize(self, _stop, self._process, os.getpid())

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def done(self) -> bool:
        """Whether it has ended, with all of its children."""
        if _has_ended(self._process):
            self.stop()
            return True
        return False

    def wait(self) -> int:
        """Wait for its end; what it says."""
        if hasattr(os, "waitid") and self._process.returncode is None:
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
            self.stop()
        return self._process.wait()


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Without taking note of it: as long as nobody does, its number is that of its group and of nothing else."""
    if process.returncode is not None:
        return True
    with contextlib.suppress(AttributeError, ChildProcessError):  # Windows; a program that takes no note of children
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    return process.poll() is not None


def _stop(process: subprocess.Popen[bytes], owner: int) -> None:
    """Leave no compiler running: first the polite way, in which it cleans up, then the other one."""
    if process.returncode is None and os.getpid() == owner:  # a forked child has no say in it
        _signal_group(process, signal.SIGTERM)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not _has_ended(process) and time.monotonic() < deadline:
            time.sleep(0.01)
        _signal_group(process, getattr(signal, "SIGKILL", signal.SIGTERM))
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_DYING_SECONDS)
    if process.stdin is not None:
        process.stdin.close()


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(OSError):  # it has just ended
        if hasattr(os, "killpg"):
            os.killpg(process.pid, number)
        else:
            process.terminate()
