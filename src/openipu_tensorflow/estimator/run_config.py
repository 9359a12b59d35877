"""How an estimator trains: where it saves, how often, and with which seed."""

from __future__ import annotations

import copy
import os
from typing import Any

_DEFAULT = object()
_REPLACEABLE = (
    "model_dir",
    "tf_random_seed",
    "save_summary_steps",
    "save_checkpoints_steps",
    "save_checkpoints_secs",
    "session_config",
    "keep_checkpoint_max",
    "keep_checkpoint_every_n_hours",
    "log_step_count_steps",
)


class RunConfig:
    """Settings of an estimator; one process, which is the chief."""

    def __init__(
        self,
        model_dir: Any = None,
        tf_random_seed: int | None = None,
        save_summary_steps: int | None = 100,
        save_checkpoints_steps: Any = _DEFAULT,
        save_checkpoints_secs: Any = _DEFAULT,
        session_config: Any = None,
        keep_checkpoint_max: int = 5,
        keep_checkpoint_every_n_hours: float = 10000,
        log_step_count_steps: int | None = 100,
        train_distribute: Any = None,
        device_fn: Any = None,
        protocol: Any = None,
        eval_distribute: Any = None,
        experimental_distribute: Any = None,
        experimental_max_worker_delay_secs: int | None = None,
        session_creation_timeout_secs: int = 7200,
        checkpoint_save_graph_def: bool = True,
    ) -> None:
        if save_checkpoints_steps is _DEFAULT and save_checkpoints_secs is _DEFAULT:
            save_checkpoints_secs = 600
        self.save_checkpoints_steps = None if save_checkpoints_steps is _DEFAULT else save_checkpoints_steps
        self.save_checkpoints_secs = None if save_checkpoints_secs is _DEFAULT else save_checkpoints_secs
        if self.save_checkpoints_steps is not None and self.save_checkpoints_secs is not None:
            raise ValueError("`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set.")
        for name, value in (
            ("save_summary_steps", save_summary_steps),
            ("save_checkpoints_steps", self.save_checkpoints_steps),
            ("save_checkpoints_secs", self.save_checkpoints_secs),
            ("log_step_count_steps", log_step_count_steps),
            ("keep_checkpoint_max", keep_checkpoint_max),
        ):
            if value is not None and value < 0:
                raise ValueError(f"{name} should be >= 0, and is {value!r}.")
        self.model_dir: str | None = None if model_dir is None else os.fspath(model_dir)
        self.tf_random_seed = tf_random_seed
        self.save_summary_steps = save_summary_steps
        self.session_config = session_config
        self.keep_checkpoint_max = keep_checkpoint_max
        self.keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours
        self.log_step_count_steps = log_step_count_steps
        self.device_fn, self.protocol = device_fn, protocol
        self.session_creation_timeout_secs = session_creation_timeout_secs
        self.checkpoint_save_graph_def = checkpoint_save_graph_def
        self.experimental_max_worker_delay_secs = experimental_max_worker_delay_secs
        self._train_distribute = train_distribute or getattr(experimental_distribute, "train_distribute", None)
        self._eval_distribute = eval_distribute or getattr(experimental_distribute, "eval_distribute", None)
        if device_fn is not None:
            raise NotImplementedError("device_fn: ops are placed by scopes here. Use ipu.scopes.ipu_scope.")

    is_chief = True
    task_type = "worker"
    task_id = 0
    num_worker_replicas = 1
    num_ps_replicas = 0
    master = ""
    evaluation_master = ""

    @property
    def train_distribute(self) -> Any:
        return self._train_distribute

    @property
    def eval_distribute(self) -> Any:
        return self._eval_distribute

    def replace(self, **changes: Any) -> Any:
        """A copy with other settings."""
        unknown = [name for name in changes if name not in _REPLACEABLE]
        if unknown:
            raise ValueError(f"Replacing {unknown[0]} is not supported. Allowed properties: {', '.join(_REPLACEABLE)}.")
        made = copy.copy(self)
        if "save_checkpoints_steps" in changes:
            made.save_checkpoints_secs = None
        elif "save_checkpoints_secs" in changes:
            made.save_checkpoints_steps = None
        for name, value in changes.items():
            setattr(made, name, value)
        return made
