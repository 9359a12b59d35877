"""What all estimators for IPUs have in common: batch sizes, steps in loops, feeds around a compiled program.

In: a model function; `_make_loop` of a subclass makes a `Loop` of it. Out: an `EstimatorSpec` of the whole: running
its ops runs the loop on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openipu_tensorflow.estimator.estimator import Estimator, split_batch
from openipu_tensorflow.estimator.inputs import call_with, is_dataset, split_element
from openipu_tensorflow.estimator.model_fn import EstimatorSpec, ModeKeys
from openipu_tensorflow.ipu import ipu_compiler, ipu_infeed_queue, ipu_run_config, scopes
from openipu_tensorflow.ipu.estimators.hooks import HOST, InfeedHook, StepHook, SystemHook

_BATCH_SIZE = "batch_size"


@dataclass(kw_only=True, eq=False)
class Loop:
    """The program of one session run, and what the host makes of its results."""

    compute: Callable[[], Any]  # is compiled
    finish: Callable[[Any], dict[str, Any]]  # gets the compiled op; makes arguments of an EstimatorSpec
    hooks: list[Any] = field(default_factory=list)  # that the model function returned


class IPUEstimatorBase(Estimator):
    """See `IPUEstimator` and `IPUPipelineEstimator`."""

    def __init__(
        self,
        model_fn: Callable[..., Any],
        model_dir: Any = None,
        config: Any = None,
        params: Mapping[str, Any] | None = None,
        warm_start_from: Any = None,
        train_batch_size: int | None = None,
        eval_batch_size: int | None = None,
        predict_batch_size: int | None = None,
    ) -> None:
        if not isinstance(config, ipu_run_config.RunConfig):
            raise ValueError("`config` must be provided with type `ipu_run_config.RunConfig`.")
        if params is not None and not isinstance(params, dict):
            raise ValueError("`params` is expected to be of type `dict`.")
        sizes = {
            ModeKeys.TRAIN: ("train_batch_size", train_batch_size, config.train_distribute),
            ModeKeys.EVAL: ("eval_batch_size", eval_batch_size, config.eval_distribute),
            ModeKeys.PREDICT: ("predict_batch_size", predict_batch_size, None),
        }
        given = any(size is not None for _, size, _ in sizes.values())
        if given and _BATCH_SIZE in (params or {}):
            raise ValueError("batch_size cannot be passed in params when a batch size argument is passed.")
        self._run = config.ipu_run_config
        self._batch_sizes = {
            mode: _share_batch(name, size, strategy, self._run.num_replicas)
            for mode, (name, size, strategy) in sizes.items()
        }
        if (config.train_distribute or config.eval_distribute) and self._run.iterations_per_loop > 1:
            raise NotImplementedError(
                f"iterations_per_loop > 1 (got {self._run.iterations_per_loop}) not supported with distribution."
            )
        super().__init__(model_fn, model_dir, config, params, warm_start_from)

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Sequence[Any] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Sequence[Any] | None = None,
    ) -> Any:
        """As `tf.estimator.Estimator.train`; steps come in multiples of `iterations_per_loop`."""
        self._check_loops(steps)
        return super().train(input_fn, hooks, steps, max_steps, saving_listeners)

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Sequence[Any] | None = None,
        checkpoint_path: str | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """As `tf.estimator.Estimator.evaluate`; steps come in multiples of `iterations_per_loop`."""
        self._check_loops(steps)
        return super().evaluate(input_fn, steps, hooks, checkpoint_path, name)

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Any = None,
        hooks: Sequence[Any] | None = None,
        checkpoint_path: str | None = None,
        yield_single_examples: bool = True,
        num_predictions: int | None = None,
    ) -> Iterator[Any]:
        """As `tf.estimator.Estimator.predict`, up to `num_predictions`: a loop that the data do not fill gives none."""
        done = 0
        for found in self._run_predictions(input_fn, predict_keys, hooks, checkpoint_path):
            for batch in split_batch(found):
                for one in split_batch(batch) if yield_single_examples and _has_batch(batch) else [batch]:
                    yield one
                    done += 1
                    if done == num_predictions:
                        return

    def _check_loops(self, steps: int | None) -> None:
        count = self._run.iterations_per_loop
        if steps is not None and steps % count:
            raise ValueError(f"steps ({steps}) must be a multiple of iterations_per_loop ({count}).")

    def _make_stop_hooks(self, steps: int | None, max_steps: int | None) -> list[Any]:
        return [StepHook(self._run.iterations_per_loop, steps, max_steps)]

    def _make_evaluation_hooks(self, steps: int | None) -> list[Any]:
        return self._make_stop_hooks(steps, None)

    def _build(self, input_fn: Callable[..., Any], mode: str) -> tuple[EstimatorSpec, list[Any]]:
        from tensorflow.python.framework import ops

        dataset = self._call_input_fn(input_fn, mode)
        infeed = ipu_infeed_queue.IPUInfeedQueue(dataset, prefetch_depth=self._read_depth())
        loop = self._make_loop(infeed, mode)
        with scopes.ipu_scope(f"/device:IPU:{self._run.ordinal}"):
            done = ipu_compiler.compile(loop.compute)
        with ops.device(HOST):
            made = EstimatorSpec(mode, **loop.finish(done))
        own: Any = {ModeKeys.TRAIN: "training_hooks", ModeKeys.EVAL: "evaluation_hooks"}.get(mode, "prediction_hooks")
        system = [] if self._run.ipu_options is None else [SystemHook(self._run)]
        changes: Any = {own: tuple(loop.hooks)}
        return made._replace(**changes), [*system, InfeedHook(infeed)]

    def _read_depth(self) -> int | None:
        depth: int | None = self._run.prefetch_depth
        if depth is not None and depth < 1:
            raise ValueError(f"prefetch_depth must be greater than zero, and is {depth}.")
        return depth

    def _call_input_fn(self, input_fn: Callable[..., Any], mode: str) -> Any:
        from tensorflow.python.framework import ops
        from tensorflow.python.util import function_utils

        if self._batch_sizes[mode] is not None and "params" not in function_utils.fn_args(input_fn):
            raise ValueError("input_fn must have params argument to receive params['batch_size'].")
        with ops.device(HOST):
            dataset = call_with(input_fn, self._describe(mode))
        if not is_dataset(dataset):
            raise ValueError(f"input_fn must return Dataset, and returned {type(dataset).__name__}.")
        split_element(dataset.element_spec, mode)  # raises where it has not two parts
        return dataset

    def _describe(self, mode: str) -> dict[str, Any]:
        """What functions of the user's may ask for; the batch size is that of one replica."""
        size = self._batch_sizes[mode]
        params = self.params if size is None else {**self.params, _BATCH_SIZE: size}
        return {"mode": mode, "params": params, "config": self.config}

    def _make_loop(self, infeed: Any, mode: str) -> Loop:
        raise NotImplementedError


def _share_batch(name: str, size: int | None, strategy: Any, replicas: int) -> int | None:
    """The part of a batch that one replica of one worker gets."""
    if size is None:
        return None
    if size < 1:
        raise ValueError(f"{name} (got {size}) must be positive.")
    workers = 1 if strategy is None else strategy.num_replicas_in_sync
    if size % (workers * replicas):
        raise ValueError(
            f"{name} (got {size}) must be divisible by num_workers * num_replicas ({workers} * {replicas})."
        )
    return int(size // (workers * replicas))


def _has_batch(found: Any) -> bool:
    """Do predictions of one iteration have a dimension to go along?"""
    values = found.values() if isinstance(found, dict) else [found]
    return all(getattr(value, "ndim", 0) > 0 for value in values)
