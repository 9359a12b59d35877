"""`ipu.ipu_pipeline_estimator`: a model function whose stages are a pipeline over the IPUs of the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from openipu_tensorflow.estimator.inputs import call_with
from openipu_tensorflow.estimator.model_fn import LOSS_METRIC_KEY, ModeKeys, check_hooks
from openipu_tensorflow.ipu.estimators.base import IPUEstimatorBase, Loop
from openipu_tensorflow.ipu.estimators.calls import average, call_on_host
from openipu_tensorflow.ipu.gradient_accumulation import GradientAccumulationReductionMethod
from openipu_tensorflow.ipu.ipu_outfeed_queue import IPUOutfeedQueue
from openipu_tensorflow.ipu.pipelines.pipeline import pipeline


class _Fields(NamedTuple):
    mode: str
    computational_stages: Any
    gradient_accumulation_count: int
    eval_metrics_fn: Any
    optimizer_function: Any
    device_mapping: Any
    loss_accumulator_dtype: Any
    training_hooks: tuple[Any, ...]
    evaluation_hooks: tuple[Any, ...]
    prediction_hooks: tuple[Any, ...]
    reduction_method: Any
    pipeline_op_kwargs: Mapping[str, Any]


class IPUPipelineEstimatorSpec(_Fields):
    """Stages, and what `pipelining_ops.pipeline` takes besides. `eval_metrics_fn` gets the outputs of the last stage on
    the host, and returns a dict of metrics with a "loss"."""

    def __new__(
        cls,
        mode: str,
        computational_stages: Any,
        gradient_accumulation_count: int | None = None,
        eval_metrics_fn: Callable[..., Any] | None = None,
        optimizer_function: Callable[..., Any] | None = None,
        device_mapping: Any = None,
        loss_accumulator_dtype: Any = None,
        training_hooks: Any = None,
        evaluation_hooks: Any = None,
        prediction_hooks: Any = None,
        reduction_method: Any = GradientAccumulationReductionMethod.SUM,
        **pipeline_op_kwargs: Any,
    ) -> IPUPipelineEstimatorSpec:
        title = "`IPUPipelineEstimatorSpec` must contain"
        if mode == ModeKeys.TRAIN and not optimizer_function:
            raise ValueError(f"{title} `optimizer_function` when training.")
        if mode == ModeKeys.EVAL and not eval_metrics_fn:
            raise ValueError(f"{title} `eval_metrics_fn` when evaluating.")
        if not gradient_accumulation_count:
            raise ValueError(f"{title} `gradient_accumulation_count`.")
        if "accumulate_outfeed" in pipeline_op_kwargs:
            raise ValueError(
                "The `accumulate_outfeed` pipeline keyword argument cannot be passed to the "
                "`IPUPipelineEstimatorSpec`: the estimator adds up losses itself."
            )
        return super().__new__(
            cls,
            mode,
            computational_stages,
            gradient_accumulation_count,
            eval_metrics_fn,
            optimizer_function,
            device_mapping,
            loss_accumulator_dtype,
            check_hooks(training_hooks),
            check_hooks(evaluation_hooks),
            check_hooks(prediction_hooks),
            reduction_method,
            pipeline_op_kwargs,
        )


class IPUPipelineEstimator(IPUEstimatorBase):
    """Trains, evaluates and predicts with a pipeline: `iterations_per_loop` micro-batches in each session run."""

    def _make_loop(self, infeed: Any, mode: str) -> Loop:
        from tensorflow.python.framework import ops

        queue = IPUOutfeedQueue()
        held: list[IPUPipelineEstimatorSpec] = []
        hooks: list[Any] = []

        def compute() -> Any:
            spec = self._call_pipeline_fn(mode)
            held.append(spec)
            chosen = {ModeKeys.TRAIN: spec.training_hooks, ModeKeys.EVAL: spec.evaluation_hooks}
            hooks.extend(chosen.get(mode, spec.prediction_hooks))
            training = {
                "optimizer_function": spec.optimizer_function,
                "outfeed_loss": True,
                "accumulate_outfeed": True,
                "accumulate_outfeed_dtype": spec.loss_accumulator_dtype,
                "reduction_method": spec.reduction_method,
            }
            return pipeline(
                spec.computational_stages,
                spec.gradient_accumulation_count,
                repeat_count=self._count_updates(spec),
                infeed_queue=infeed,
                outfeed_queue=queue,
                device_mapping=spec.device_mapping,
                **(training if mode == ModeKeys.TRAIN else {}),
                **spec.pipeline_op_kwargs,
            )

        def finish(done: Any) -> dict[str, Any]:
            spec = held[0]
            if mode == ModeKeys.TRAIN:
                return {"loss": average(queue, done) / spec.gradient_accumulation_count, "train_op": done}
            with ops.control_dependencies([done]):
                found = queue.dequeue(wait_for_completion=True)
            return _name_metrics(spec, found) if mode == ModeKeys.EVAL else {"predictions": _check_single(found)}

        return Loop(compute=compute, finish=finish, hooks=hooks)

    def _call_pipeline_fn(self, mode: str) -> IPUPipelineEstimatorSpec:
        from tensorflow.python.util import function_utils

        names = function_utils.fn_args(self._model_fn)
        if "features" in names or "labels" in names:
            raise ValueError(
                "The `model_fn` used with `IPUPipelineEstimator` must not have `features` or `labels` arguments: the "
                "first stage gets them."
            )
        spec = call_with(self._model_fn, self._describe(mode))
        if not isinstance(spec, IPUPipelineEstimatorSpec):
            raise TypeError(
                "The `model_fn` used with `IPUPipelineEstimator` must return `IPUPipelineEstimatorSpec`, not "
                f"{type(spec).__name__}."
            )
        used = len(set(spec.device_mapping) if spec.device_mapping is not None else spec.computational_stages)
        shards = self._run.num_shards
        if not shards // 2 < used <= shards:
            raise ValueError(
                f"This pipeline requires {used} devices, but `IPURunConfig.num_shards` was set to {shards} "
                "(num_shards/2 < pipeline_devices <= num_shards)."
            )
        return spec

    def _count_updates(self, spec: IPUPipelineEstimatorSpec) -> int:
        rounds, count = self._run.iterations_per_loop, spec.gradient_accumulation_count
        title = f"`IPURunConfig.iterations_per_loop` (got {rounds})"
        if rounds < count:
            raise ValueError(f"{title} cannot be less than `gradient_accumulation_count` (got {count}).")
        if rounds % count:
            raise ValueError(f"{title} must be divisible by `gradient_accumulation_count` (got {count}).")
        return int(rounds // count)


def _name_metrics(spec: IPUPipelineEstimatorSpec, found: Any) -> dict[str, Any]:
    from tensorflow.python.ops import math_ops

    metrics = call_on_host(spec.eval_metrics_fn, found)
    if not isinstance(metrics, dict):
        raise TypeError(f"The `eval_metrics_fn` must return a dict, but got {type(metrics).__name__}.")
    if LOSS_METRIC_KEY not in metrics:
        raise KeyError(f"The dict returned from `eval_metrics_fn` must contain '{LOSS_METRIC_KEY}'.")
    loss = math_ops.reduce_mean(metrics[LOSS_METRIC_KEY])
    return {"loss": loss, "eval_metric_ops": {name: pair for name, pair in metrics.items() if name != LOSS_METRIC_KEY}}


def _check_single(found: Any) -> Any:
    if not isinstance(found, (list, tuple)):
        return found
    if len(found) != 1:
        raise ValueError(
            f"The last computational stage must return exactly one prediction tensor, but got {len(found)}."
        )
    return found[0]
