"""SIGTERM while a script runs: the summary is written, and then the process ends by the signal, as plain Python does.

In: what to write. Out: nothing; shells and schedulers see exit code 128 + 15. A script that handles the signal itself
keeps it: what it does, and whether it ends, is as without openipu.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_LONGEST_SECONDS = 30.0  # for writing, should the signal have come while something that it needs was locked


@contextmanager
def close_on_sigterm(close: Callable[[], None]) -> Iterator[None]:
    """While the block runs, let SIGTERM call `close` before it ends the process."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield  # whoever started us ignores the signal, or deals with it
        return
    own = _Handler(close)
    signal.signal(signal.SIGTERM, own)
    try:
        yield
    finally:
        own.let_go()


class _Handler:
    """What Python calls for the signal, in the main thread of the process that installed it."""

    def __init__(self, close: Callable[[], None]) -> None:
        self._close = close
        self._masks = threading.local()
        if hasattr(os, "register_at_fork"):  # workers of data loaders end as they always did
            os.register_at_fork(before=self._hold_back, after_in_parent=self._let_in, after_in_child=self._leave_child)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if not self._installed:
            return  # called by a handler that took our place, and took us for a script's own
        self.let_go()  # a second signal does not wait
        # In a thread: this one may have been stopped in the middle of a write to the same stream.
        writing = threading.Thread(target=self._write, daemon=True)
        writing.start()
        writing.join(_LONGEST_SECONDS)
        os.kill(os.getpid(), signal.SIGTERM)

    @property
    def _installed(self) -> bool:
        present: object = signal.getsignal(signal.SIGTERM)
        return present is self

    def let_go(self) -> None:
        """Give the signal its usual effect, unless the script has taken it over."""
        if self._installed:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _hold_back(self) -> None:
        """Python forgets what arrives in a child before it is ready: the signal waits until then."""
        self._masks.before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def _let_in(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._masks.before)

    def _leave_child(self) -> None:
        if threading.current_thread() is threading.main_thread():  # as every thread that forks is, in the child
            self.let_go()
        self._let_in()

    def _write(self) -> None:
        try:
            self._close()
        except Exception as error:  # the process ends in any case
            sys.stderr.write(f"openipu run: no summary: {error}\n")
