"""Asynchronous callbacks: those of each step, instead of those of an execution.

In: results of all steps of an execution. Out: calls of `on_…_batch_begin` and `on_…_batch_end`, in the order of steps.
An execution of ours ends before its results are there, so that callbacks run behind it and not beside it.
"""

from __future__ import annotations

from typing import Any

from keras.src.callbacks import CallbackList

import tensorflow as tf
from openipu_tensorflow.keras.methods import options_of
from openipu_tensorflow.keras.running.tracing import Mode

_HELD = "_ipu_step_callbacks"


class StepCallbacks(CallbackList):  # type: ignore[misc]
    """Calls for a whole execution are left out: the model calls for each step itself."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.step = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.step = 0
        super().on_epoch_begin(epoch, logs)

    def on_test_begin(self, logs: Any = None) -> None:
        self.test_step = 0
        super().on_test_begin(logs)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None: ...
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None: ...
    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None: ...
    def on_test_batch_end(self, batch: int, logs: Any = None) -> None: ...

    def report(self, mode: Mode, logs: Any) -> None:
        """One step."""
        if mode is Mode.FIT:
            super().on_train_batch_begin(self.step)
            super().on_train_batch_end(self.step, logs)
            self.step += 1
        else:
            super().on_test_batch_begin(self.test_step)
            super().on_test_batch_end(self.test_step, logs)
            self.test_step += 1


def hold_callbacks(model: Any, callbacks: StepCallbacks | None) -> None:
    object.__setattr__(model, _HELD, callbacks)


def report_steps(model: Any, mode: Mode, values: Any, steps: int) -> None:
    """After an execution."""
    callbacks: StepCallbacks | None = model.__dict__.get(_HELD)
    if callbacks is None or not options_of(model).asynchronous_callbacks:
        return
    for step in range(steps):
        callbacks.report(mode, tf.nest.map_structure(lambda value, step=step: value[step], values))
