"""What a model function is told, and what it returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

LOSS_METRIC_KEY = "loss"


class ModeKeys:
    """What a model is built for."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


class _Fields(NamedTuple):
    mode: str
    predictions: Any
    loss: Any
    train_op: Any
    eval_metric_ops: Any
    export_outputs: Any
    training_chief_hooks: tuple[Any, ...]
    training_hooks: tuple[Any, ...]
    scaffold: Any
    evaluation_hooks: tuple[Any, ...]
    prediction_hooks: tuple[Any, ...]


class EstimatorSpec(_Fields):
    """The tensors and ops of a model, checked for what it is built for."""

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: Any = None,
        export_outputs: Any = None,
        training_chief_hooks: Any = None,
        training_hooks: Any = None,
        scaffold: Any = None,
        evaluation_hooks: Any = None,
        prediction_hooks: Any = None,
    ) -> EstimatorSpec:
        return super().__new__(
            cls,
            mode,
            check_predictions(predictions, mode),
            check_loss(loss, mode),
            check_train_op(train_op, mode),
            check_metrics(eval_metric_ops),
            export_outputs,
            check_hooks(training_chief_hooks),
            check_hooks(training_hooks),
            scaffold,
            check_hooks(evaluation_hooks),
            check_hooks(prediction_hooks),
        )


def check_train_op(train_op: Any, mode: str) -> Any:
    if train_op is None and mode == ModeKeys.TRAIN:
        raise ValueError("Missing train_op: a model function returns one for training.")
    return train_op if train_op is None else check_result(train_op, "train_op")


def check_loss(loss: Any, mode: str) -> Any:
    """A scalar; a tensor of one element becomes one."""
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import array_ops

    if loss is None:
        if mode in (ModeKeys.TRAIN, ModeKeys.EVAL):
            raise ValueError("Missing loss: a model function returns one for training and evaluation.")
        return None
    found = ops.convert_to_tensor(loss)
    if found.shape.num_elements() not in (None, 1):
        raise ValueError(f"Loss must be scalar, given: {found}.")
    return found if found.shape.rank == 0 else array_ops.reshape(found, [])


def check_predictions(predictions: Any, mode: str) -> Any:
    if predictions is None:
        if mode == ModeKeys.PREDICT:
            raise ValueError("Missing predictions: a model function returns them for prediction.")
        return {}
    for value in predictions.values() if isinstance(predictions, dict) else [predictions]:
        if not hasattr(value, "dtype"):
            raise TypeError(f"predictions must be a Tensor, or a dict of them, given: {value!r}.")
    return predictions


def check_metrics(metrics: Any) -> dict[str, Any]:
    if metrics is None:
        return {}
    if not isinstance(metrics, dict):
        raise TypeError(f"eval_metric_ops must be a dict, given: {metrics!r}.")
    for name, pair in metrics.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(
                f"Values of eval_metric_ops must be (metric_value, update_op) tuples, given: {pair!r} for {name!r}."
            )
    return metrics


def check_hooks(hooks: Sequence[Any] | None) -> tuple[Any, ...]:
    from tensorflow.python.training import session_run_hook

    made = tuple(hooks or ())
    for hook in made:
        if not isinstance(hook, session_run_hook.SessionRunHook):
            raise TypeError(f"All hooks must be SessionRunHook instances, given: {hook!r}.")
    return made


def check_result(value: Any, what: str) -> Any:
    """A tensor or an operation."""
    from tensorflow.python.framework import ops

    if not isinstance(value, ops.Operation) and not hasattr(value, "dtype"):
        raise TypeError(f"{what} must be Operation or Tensor, given: {value!r}.")
    return value
