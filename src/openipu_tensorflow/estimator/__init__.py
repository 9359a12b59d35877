"""`tf.estimator`, which TensorFlow has had until 2.15: as much of it as programs for IPUs build on.

In: a model function and an input function. Out: training, evaluation and prediction in sessions, with checkpoints and
summaries in a folder. `tensorflow.python.estimator` is this, where TensorFlow itself has none.
"""

from tensorflow.python.training.basic_session_run_hooks import (
    CheckpointSaverHook,
    FinalOpsHook,
    LoggingTensorHook,
    NanTensorHook,
    StepCounterHook,
    StopAtStepHook,
    SummarySaverHook,
)
from tensorflow.python.training.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)

from openipu_tensorflow.estimator.estimator import Estimator, WarmStartSettings
from openipu_tensorflow.estimator.model_fn import EstimatorSpec, ModeKeys
from openipu_tensorflow.estimator.run_config import RunConfig
from openipu_tensorflow.estimator.training import EvalSpec, TrainSpec, train_and_evaluate

__all__ = [
    "CheckpointSaverHook",
    "Estimator",
    "EstimatorSpec",
    "EvalSpec",
    "FinalOpsHook",
    "LoggingTensorHook",
    "ModeKeys",
    "NanTensorHook",
    "RunConfig",
    "SessionRunArgs",
    "SessionRunContext",
    "SessionRunHook",
    "SessionRunValues",
    "StepCounterHook",
    "StopAtStepHook",
    "SummarySaverHook",
    "TrainSpec",
    "WarmStartSettings",
    "offer_estimators",
    "train_and_evaluate",
]


def offer_estimators() -> None:
    """`tf.estimator` is this package, where TensorFlow has none of its own."""
    import sys

    import tensorflow as tf

    for module in (tf, tf.compat.v1):
        if not hasattr(module, "estimator"):
            module.estimator = sys.modules[__name__]
