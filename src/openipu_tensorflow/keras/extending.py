"""Gives Keras' models what they have on IPUs.

In: Keras. Out: the original's methods on every model; `fit`, `evaluate` and `predict` of models that were made in the
scope of an IPUStrategy run on its device. Models that were not stay as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras.src import backend
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
from keras.src.ops.node import Node

import tensorflow as tf
from openipu_tensorflow.keras.data.epochs import install_epochs
from openipu_tensorflow.keras.legacy import restore_keras_2
from openipu_tensorflow.keras.methods import METHODS
from openipu_tensorflow.keras.running.running import on_ipu, run_fit_or_evaluate, run_predict
from openipu_tensorflow.keras.running.step_functions import make_function
from openipu_tensorflow.keras.running.tracing import Mode
from openipu_tensorflow.keras.running.watching import install_watching
from openipu_tensorflow.keras.saving import install_saving
from openipu_tensorflow.keras.stages.pipeline_stage import mark_stage

_done: list[bool] = []
_OF_GENERATORS = ("workers", "use_multiprocessing", "max_queue_size")  # Keras 2: how generators are read


def extend_keras() -> None:
    """A second call changes nothing."""
    if _done:
        return
    _done.append(True)
    install_watching()
    install_epochs()
    install_saving()
    restore_keras_2()
    for name, method in METHODS.items():
        setattr(keras.Model, name, method)
    _mark_nodes()
    _mark_layers()
    _accept_numbers()
    _replace(TensorFlowTrainer, "fit", functools.partial(run_fit_or_evaluate, Mode.FIT))
    _replace(TensorFlowTrainer, "evaluate", functools.partial(run_fit_or_evaluate, Mode.EVALUATE))
    _replace(TensorFlowTrainer, "predict", run_predict)
    for mode, name in {Mode.FIT: "train", Mode.EVALUATE: "test", Mode.PREDICT: "predict"}.items():
        _replace(TensorFlowTrainer, f"make_{name}_function", functools.partial(make_function, mode, f"{name}_function"))
    _replace(TensorFlowTrainer, "_maybe_symbolic_build", _build)
    _replace(TensorFlowTrainer, "_get_metrics_result_or_logs", _take_logs)


def _replace(kind: type, name: str, ours: Callable[..., Any]) -> None:
    """Models of an IPU get `ours(original, model, ...)`."""
    original = getattr(kind, name)

    @functools.wraps(original)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs = {name: value for name, value in kwargs.items() if name not in _OF_GENERATORS}
        return ours(original, self, *args, **kwargs) if on_ipu(self) else original(self, *args, **kwargs)

    setattr(kind, name, method)


def _mark_nodes() -> None:
    original = Node.__init__

    @functools.wraps(original)
    def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        mark_stage(self)

    Node.__init__ = initialize


def _mark_layers() -> None:
    """Where they are made: Keras looks at the signature of `__init__`, so that it stays as it is."""
    original = keras.layers.Layer.__new__

    def make(cls: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(cls, *args, **kwargs)
        mark_stage(made)
        return made

    keras.layers.Layer.__new__ = staticmethod(make)


def _build(original: Any, model: Any, iterator: Any = None, data_batch: Any = None) -> None:
    """Shapes are enough: no data is taken for it."""
    if iterator is not None:
        data_batch = iterator.element_spec
    inputs, target, _ = keras.utils.unpack_x_y_sample_weight(data_batch)
    _adopt(getattr(model, "optimizer", None), model.distribute_strategy)
    with model.distribute_strategy.scope():
        if target is not None:
            model._symbolic_build(data_batch=data_batch)
        elif not model.built:  # Keras would build the loss, too, which has no target
            backend.compute_output_spec(model, tf.nest.map_structure(_describe, inputs), training=False)


def _adopt(optimizer: Any, strategy: Any) -> None:
    """An optimizer that was made outside of the scope, as Keras 2 allowed, works in the model's."""
    while optimizer is not None and not optimizer.built:
        optimizer._distribution_strategy = strategy
        optimizer = getattr(optimizer, "inner_optimizer", getattr(optimizer, "_opt", None))


def _describe(spec: Any) -> Any:
    return keras.KerasTensor(spec.shape, keras.backend.standardize_dtype(spec.dtype))


def _take_logs(original: Any, model: Any, logs: Any) -> Any:
    """What the last step of the device said."""
    return logs


def _accept_numbers() -> None:
    """`Input(shape=80)`, which Keras 2 took for `(80,)` and Keras 3 refuses."""
    original = backend.standardize_shape
    backend.standardize_shape = lambda shape: original((shape,) if isinstance(shape, int) else shape)
