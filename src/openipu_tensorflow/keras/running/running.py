"""`fit`, `evaluate` and `predict` of a model on an IPU.

In: Keras' own methods and their arguments. Out: what they return. Keras' own loops over epochs, callbacks and progress
bars run; what differs is what an iteration is: one execution of the device.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import keras
import numpy

import tensorflow as tf
from openipu_tensorflow.ipu.ipu_strategy import find_ipu_strategy
from openipu_tensorflow.keras.data.epochs import IpuEpochIterator, describe_feeding, feed
from openipu_tensorflow.keras.methods import options_of
from openipu_tensorflow.keras.running.checks import check_model
from openipu_tensorflow.keras.running.per_step import StepCallbacks, hold_callbacks
from openipu_tensorflow.keras.running.step_functions import count_replicas
from openipu_tensorflow.keras.running.tracing import Mode


def on_ipu(model: Any) -> bool:
    """Was it made in the scope of a strategy with Keras extensions?"""
    strategy = find_ipu_strategy(getattr(model, "_distribute_strategy", None) or False)
    return strategy is not None and strategy._enable_keras_extensions


def run_fit_or_evaluate(mode: Mode, original: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
    """Keras' own, with our iterator."""
    check_model(model, mode)
    bound = inspect.signature(original).bind(model, *args, **kwargs)
    given = bound.arguments
    asynchronous = options_of(model).asynchronous_callbacks and not isinstance(
        given.get("callbacks"), keras.callbacks.CallbackList
    )
    with feed(describe_feeding(options_of(model), partial(count_replicas, model))):
        if not asynchronous:
            return original(*bound.args, **bound.kwargs)
        verbose = given.get("verbose", "auto")
        made = StepCallbacks(
            given.get("callbacks"),
            add_history=mode is Mode.FIT,
            add_progbar=verbose != 0,
            verbose=verbose,
            epochs=given.get("epochs", 1),
            steps=None,
            model=model,
        )
        given["callbacks"] = made
        hold_callbacks(model, made)
        try:
            return original(*bound.args, **bound.kwargs)
        finally:
            hold_callbacks(model, None)


def run_predict(
    original: Any,
    model: Any,
    x: Any,
    batch_size: int | None = None,
    verbose: Any = "auto",
    steps: int | None = None,
    callbacks: Any = None,
) -> Any:
    """Predictions of all samples, in their order."""
    check_model(model, Mode.PREDICT)
    iterator = IpuEpochIterator(
        describe_feeding(options_of(model), partial(count_replicas, model)),
        x=x,
        batch_size=batch_size,
        steps_per_epoch=steps,
        shuffle=False,
        steps_per_execution=model.steps_per_execution,
    )
    if not isinstance(callbacks, keras.callbacks.CallbackList):
        callbacks = keras.callbacks.CallbackList(
            callbacks,
            add_progbar=verbose != 0,
            verbose=verbose,
            epochs=1,
            steps=iterator.num_batches,
            model=model,
        )
    model._maybe_symbolic_build(iterator=iterator)
    model.make_predict_function()
    model.stop_predicting = False
    callbacks.on_predict_begin()
    found: list[Any] = []
    with iterator.catch_stop_iteration():
        for first, last, data in iterator:
            callbacks.on_predict_batch_begin(first)
            outputs = model.predict_function(data)
            found.append(outputs)
            callbacks.on_predict_batch_end(last, {"outputs": outputs})
            if model.stop_predicting:
                break
    callbacks.on_predict_end()
    return tf.nest.map_structure(lambda *parts: numpy.concatenate(parts), *found)
