"""What happens around the sessions of an estimator for IPUs."""

from __future__ import annotations

from typing import Any

from tensorflow.python.training import session_run_hook

HOST = "/device:CPU:0"


class SystemHook(session_run_hook.SessionRunHook):  # type: ignore[misc]
    """Configures the IPUs before the session begins."""

    def __init__(self, config: Any) -> None:
        self._config = config

    def begin(self) -> None:
        from openipu_tensorflow.ipu.configuration.devices import configure_ipu_system, get_num_of_ipus_in_device

        run = self._config
        configure_ipu_system(run.ipu_options)
        found = get_num_of_ipus_in_device(f"/device:IPU:{run.ordinal}")
        if found != run.num_replicas * run.num_shards:
            raise ValueError(
                f"`IPURunConfig` configured with {run.num_replicas * run.num_shards} devices ({run.num_replicas} "
                f"num_replicas times {run.num_shards} num_shards), but `IpuOptions` configured with {found} devices."
            )


class InfeedHook(session_run_hook.SessionRunHook):  # type: ignore[misc]
    """Begins and ends an infeed with the session."""

    def __init__(self, infeed: Any) -> None:
        self._infeed = infeed

    def begin(self) -> None:
        self._initializer, self._deleter = self._infeed.initializer, self._infeed.deleter

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self._initializer)

    def end(self, session: Any) -> None:
        session.run(self._deleter)


class StepHook(session_run_hook.SessionRunHook):  # type: ignore[misc]
    """Counts the steps of each loop when it has run, and stops after the last one."""

    def __init__(self, iterations: int, steps: int | None, last: int | None) -> None:
        self._iterations, self._steps, self._last = iterations, steps, last

    def begin(self) -> None:
        from tensorflow.python.framework import ops
        from tensorflow.python.training import training_util

        counter = training_util.get_global_step()
        with ops.device(HOST):
            self._read = counter.read_value()
            self._count = counter.assign_add(self._iterations, read_value=True)

    def after_create_session(self, session: Any, coord: Any) -> None:
        if self._steps is not None:
            self._last = int(session.run(self._read)) + self._steps

    def after_run(self, run_context: Any, run_values: Any) -> None:
        reached = int(run_context.session.run(self._count))
        if self._last is not None and reached >= self._last:
            run_context.request_stop()
