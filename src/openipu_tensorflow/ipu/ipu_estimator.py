"""`ipu.ipu_estimator`: a model function as the body of a loop on the device."""

from __future__ import annotations

from typing import Any, NamedTuple

from openipu_tensorflow.estimator.estimator import call_model_fn
from openipu_tensorflow.estimator.inputs import split_element
from openipu_tensorflow.estimator.model_fn import (
    EstimatorSpec,
    ModeKeys,
    check_hooks,
    check_loss,
    check_metrics,
    check_predictions,
    check_train_op,
)
from openipu_tensorflow.graphs.device_ops import read_device_op
from openipu_tensorflow.ipu import loops
from openipu_tensorflow.ipu.clusters.tracing import current_trace
from openipu_tensorflow.ipu.clusters.updates import UpdateItem
from openipu_tensorflow.ipu.estimators.base import IPUEstimatorBase, Loop
from openipu_tensorflow.ipu.estimators.calls import average, call_on_host, check_answer, check_call
from openipu_tensorflow.ipu.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue


class _Fields(NamedTuple):
    mode: str
    predictions: Any
    loss: Any
    train_op: Any
    eval_metric_ops: Any
    eval_metrics: Any
    host_call: Any
    training_hooks: tuple[Any, ...]
    evaluation_hooks: tuple[Any, ...]
    prediction_hooks: tuple[Any, ...]


class IPUEstimatorSpec(_Fields):
    """An `EstimatorSpec` with functions of the host: `eval_metrics` (a function and tensors of the device, as a list or
    a dict) for metrics, and `host_call` (a function and a list) for every training step."""

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: Any = None,
        eval_metrics: Any = None,
        host_call: Any = None,
        training_hooks: Any = None,
        evaluation_hooks: Any = None,
        prediction_hooks: Any = None,
    ) -> IPUEstimatorSpec:
        check_call(host_call, "host_call", list)
        check_call(eval_metrics, "eval_metrics", list, dict)
        return super().__new__(
            cls,
            mode,
            check_predictions(predictions, mode),
            check_loss(loss, mode),
            check_train_op(train_op, mode),
            check_metrics(eval_metric_ops),
            eval_metrics,
            host_call,
            check_hooks(training_hooks),
            check_hooks(evaluation_hooks),
            check_hooks(prediction_hooks),
        )


class IPUEstimator(IPUEstimatorBase):
    """Trains, evaluates and predicts on an IPU device: `iterations_per_loop` steps in each session run.

    Losses are averaged over the steps of a loop and over replicas. For replicas, wrap the optimizer in a
    `CrossReplicaOptimizer`. The estimator counts `global_step` itself, when a loop has run.
    """

    def _make_loop(self, infeed: Any, mode: str) -> Loop:
        made = {ModeKeys.TRAIN: _Training, ModeKeys.EVAL: _Evaluation, ModeKeys.PREDICT: _Prediction}[mode]
        return made(self, infeed).make_loop()

    def _call_body(self, mode: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        element = kwargs or (args[0] if len(args) == 1 else args)
        features, labels = split_element(element, mode)
        spec = call_model_fn(self._model_fn, {"features": features}, labels, self._describe(mode))
        if not isinstance(spec, (IPUEstimatorSpec, EstimatorSpec)):
            raise ValueError("`model_fn` must return IPUEstimatorSpec or EstimatorSpec.")
        return spec


class _Looped:
    """A loop over the infeed whose body calls the model function."""

    mode = ""

    def __init__(self, estimator: IPUEstimator, infeed: Any) -> None:
        self._estimator, self._infeed = estimator, infeed
        self._run = estimator.config.ipu_run_config
        self._losses = IPUOutfeedQueue()
        self._values = IPUOutfeedQueue()
        self._hooks: list[Any] = []

    def make_loop(self) -> Loop:
        def compute() -> Any:
            return loops.repeat(self._run.iterations_per_loop, self._step, infeed_queue=self._infeed)

        return Loop(compute=compute, finish=self.finish, hooks=self._hooks)

    def _step(self, *args: Any, **kwargs: Any) -> Any:
        return self.body(self._estimator._call_body(self.mode, args, kwargs))

    def body(self, spec: Any) -> list[Any]:
        raise NotImplementedError

    def finish(self, done: Any) -> dict[str, Any]:
        raise NotImplementedError


class _Training(_Looped):
    mode = ModeKeys.TRAIN
    _call: Any = None
    _arguments: IPUOutfeedQueue | None = None

    def body(self, spec: Any) -> list[Any]:
        if spec.loss is None or spec.train_op is None:
            raise ValueError("EstimatorSpec must contain loss and train_op when training.")
        _check_step_counter(spec.loss.graph)
        if self._run.num_replicas > 1:
            _check_reduction(spec.loss.graph)
        self._hooks += spec.training_hooks
        ends = [self._losses.enqueue(spec.loss), getattr(spec.train_op, "op", spec.train_op)]
        call = getattr(spec, "host_call", None)
        if call is not None:
            if self._run.iterations_per_loop > 1:
                raise ValueError("host_call is not allowed for iterations_per_loop > 1.")
            self._call = call[0]
            if call[1]:
                self._arguments = IPUOutfeedQueue(IPUOutfeedMode.LAST)
                ends.append(self._arguments.enqueue(list(call[1])))
        return ends

    def finish(self, done: Any) -> dict[str, Any]:
        from tensorflow.python.framework import ops
        from tensorflow.python.ops import control_flow_ops

        loss, train_op = average(self._losses, done), done
        if self._call is not None:
            with ops.control_dependencies([done]):
                values = self._arguments.dequeue() if self._arguments is not None else []
                returned = check_answer(call_on_host(self._call, values), "`host_call` return value")
            train_op = control_flow_ops.group(done, returned)
        return {"loss": loss, "train_op": train_op}


class _Evaluation(_Looped):
    mode = ModeKeys.EVAL
    _call: Any = None

    def body(self, spec: Any) -> list[Any]:
        if spec.loss is None:
            raise ValueError("EstimatorSpec must contain loss when evaluating.")
        on_host = getattr(spec, "eval_metrics", None)
        if not spec.eval_metric_ops and not on_host:
            raise ValueError("EstimatorSpec must contain either eval_metric_ops or eval_metrics when evaluating.")
        if spec.eval_metric_ops and on_host:
            raise ValueError("EstimatorSpec cannot contain both eval_metric_ops and eval_metrics.")
        self._hooks += spec.evaluation_hooks
        if on_host:
            self._call, values = on_host
        else:  # what an update gives is the new value; whether the other tensor is read before or after is not said
            values = {name: update for name, (_, update) in sorted(spec.eval_metric_ops.items())}
        return [self._losses.enqueue(spec.loss), self._values.enqueue(values)]

    def finish(self, done: Any) -> dict[str, Any]:
        from tensorflow.python.framework import ops
        from tensorflow.python.ops import control_flow_ops, math_ops

        loss = average(self._losses, done)
        if self._call is not None:
            with ops.control_dependencies([done]):
                found = self._values.dequeue(wait_for_completion=True)
            return {"loss": loss, "eval_metric_ops": call_on_host(self._call, found)}
        found = self._values.dequeue(wait_for_completion=True)  # once, when all loops have run
        last = {name: math_ops.reduce_mean(values[-1]) for name, values in found.items()}
        return {
            "loss": loss,
            "eval_metric_ops": {name: (value, control_flow_ops.no_op()) for name, value in last.items()},
        }


class _Prediction(_Looped):
    mode = ModeKeys.PREDICT

    def body(self, spec: Any) -> list[Any]:
        self._hooks += spec.prediction_hooks
        return [self._values.enqueue(spec.predictions)]

    def finish(self, done: Any) -> dict[str, Any]:
        from tensorflow.python.framework import ops

        with ops.control_dependencies([done]):
            return {"predictions": self._values.dequeue(wait_for_completion=True)}


def _check_step_counter(graph: Any) -> None:
    for op in graph.get_operations():
        if op.type == "AssignAddVariableOp" and "global_step" in op.inputs[0].name:
            raise ValueError(
                "Illegal increment of the `global_step` variable in the `model_fn`: the IPUEstimator counts it itself, "
                "when a loop has run. Leave `global_step` out of Optimizer.minimize()."
            )


def _check_reduction(graph: Any) -> None:
    """Replicas that train have something in common."""
    trace = current_trace()
    for item in [] if trace is None else trace.level.items:
        if isinstance(item, UpdateItem) and item.options.replica_reduction is not None:
            return
    for op in graph.get_operations():
        found = read_device_op(op.node_def.attr)
        if found is not None and found[0].startswith("IpuCrossReplica"):
            return
    raise ValueError(
        "This is not a valid replicated training graph because nothing in it is reduced over replicas. Did you "
        "remember to use the `tensorflow.python.ipu.optimizers.CrossReplicaOptimizer`?"
    )
