"""`ipu.ipu_session_run_hooks`: values of tensors of a program in the log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
from tensorflow.python.platform import tf_logging
from tensorflow.python.training import basic_session_run_hooks, session_run_hook

from openipu_tensorflow.ipu.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue


class IPULoggingTensorHook(session_run_hook.SessionRunHook):  # type: ignore[misc]
    """Logs tensors of a compiled function: every so many session runs, every so many seconds, or at the end.

    Args:
        every_n_iter: how often, in session runs.
        every_n_secs: how often, in seconds.
        at_end: log when the session ends, too.
        formatter: makes the text of a dict of names and values.
        logging_mode: all values since the last time, or the last one.
    """

    LoggingMode = IPUOutfeedMode

    def __init__(
        self,
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[dict[str, Any]], str] | None = None,
        logging_mode: IPUOutfeedMode = IPUOutfeedMode.LAST,
    ) -> None:
        if every_n_iter is not None and every_n_secs is not None:
            raise ValueError("Cannot provide both every_n_iter and every_n_secs.")
        never = every_n_iter is None and every_n_secs is None
        if never and not at_end:
            raise ValueError("Either every_n_iter, every_n_secs or at_end should be provided.")
        self._timer = (
            basic_session_run_hooks.NeverTriggerTimer()
            if never
            else basic_session_run_hooks.SecondOrStepTimer(every_secs=every_n_secs, every_steps=every_n_iter)
        )
        self._at_end, self._formatter = at_end, formatter
        self._outfeed = IPUOutfeedQueue(logging_mode)
        self._values: Any = None
        self._deleter: Any = None
        self._runs = 0

    def log(self, tensors: Any) -> Any:
        """Log tensors: one, several, or a dict with names for them. Returns an op, which has to be run with others."""
        if self._outfeed.enqueued:
            raise RuntimeError(
                "Cannot use this hook object's log function more than once. Log several tensors together, as a list or "
                "a dict, or use another hook."
            )
        return self._outfeed.enqueue(tensors if isinstance(tensors, dict) else _name(tensors))

    def begin(self) -> None:
        from tensorflow.python.framework import ops

        if not self._outfeed.enqueued:
            raise RuntimeError("This hook has nothing to log. Did you forget to call the log function?")
        with ops.device("/device:CPU:0"):
            self._values, self._deleter = self._outfeed.dequeue(), self._outfeed.deleter
        self._runs = 0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if self._timer.should_trigger_for_step(self._runs):
            self._write(run_context.session.run(self._values))
        self._runs += 1

    def end(self, session: Any) -> None:
        if self._at_end:
            self._write(session.run(self._values))
        session.run(self._deleter)
        self._timer.reset()

    def _write(self, values: dict[str, Any]) -> None:
        seconds, _ = self._timer.update_last_triggered_step(self._runs)
        with numpy.printoptions(suppress=True, legacy="1.25"):  # numbers without the names of their types
            if self._formatter is not None:
                tf_logging.info(self._formatter(values))
                return
            text = ", ".join(f"{name} = {value}" for name, value in values.items())
        tf_logging.info("%s" if seconds is None else "%s (%.3f sec)", text, *([] if seconds is None else [seconds]))


def _name(tensors: Any) -> dict[str, Any]:
    from tensorflow.python.framework import tensor_util

    listed = list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]
    for tensor in listed:
        if not tensor_util.is_tf_type(tensor):
            raise TypeError(f"Expected `tf.Tensor`, got {type(tensor).__name__}.")
    return {tensor.name: tensor for tensor in listed}
