"""One executor, many threads: who waits for whom.

In: methods of an executor. Out: the same methods, one thread at a time. There are two locks, and a third one in
`openipu.capture`; a thread takes them in this order only, so that no two wait for each other:

1. the executor's own, for everything that changes it, from a compilation to a call;
2. `hold_models`, while a model is captured or its tensors change their classes;
3. the device's, while a program runs or weights move. It alone is taken wherever somebody looks at a trained tensor.

An executor that evaluates takes the device lock of the one that trains its weights, never the other way round.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from poptorch.errors import createPoptorchError

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


class Locked:
    """Mixed into what several threads may use."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._device_lock = threading.RLock()
        self._busy = ""  # what the thread that has the lock is doing, if its own code may run in between

    def hold_device(self) -> threading.RLock:
        """The lock of the device: nothing runs and no weight moves while it is held."""
        return self._device_lock

    @contextmanager
    def _occupy(self, work: str) -> Iterator[None]:
        """Refuse to come back here from code of the user's that the work calls: a host function, a hook, forward."""
        self._refuse_reentry()
        self._busy = work
        try:
            yield
        finally:
            self._busy = ""

    def _refuse_reentry(self) -> None:
        if self._busy:
            raise createPoptorchError(
                f"The model is being {self._busy}, and code that this calls (forward, a poptorch.CPU function or a "
                "hook) uses the model itself. Wrap the module a second time with poptorch.inferenceModel, and use that."
            )


Owner = TypeVar("Owner", bound=Locked)


def one_at_a_time(method: Callable[Concatenate[Owner, Given], Answer]) -> Callable[Concatenate[Owner, Given], Answer]:
    """Let one thread at a time into an executor."""

    @wraps(method)
    def enter(self: Owner, *args: Given.args, **kwargs: Given.kwargs) -> Answer:
        with self._lock:
            return method(self, *args, **kwargs)

    return enter


def with_device(method: Callable[Concatenate[Owner, Given], Answer]) -> Callable[Concatenate[Owner, Given], Answer]:
    """As `one_at_a_time`, and nothing runs meanwhile."""

    @wraps(method)
    def enter(self: Owner, *args: Given.args, **kwargs: Given.kwargs) -> Answer:
        with self._lock, self._device_lock:
            return method(self, *args, **kwargs)

    return enter
