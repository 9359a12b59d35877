"""What a model on an IPU cannot do, in the original's words."""

from __future__ import annotations

import logging
from typing import Any

import keras
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer

from openipu_tensorflow.keras.running.tracing import Mode

_logger = logging.getLogger("openipu")
_NAMES = {Mode.FIT: "train", Mode.EVALUATE: "test", Mode.PREDICT: "predict"}
_warned: set[int] = set()


def check_model(model: Any, mode: Mode) -> None:
    """Refuse what would not run as it says."""
    if model.run_eagerly:
        raise RuntimeError(
            "Keras models cannot run eagerly when using `IPUStrategy`. Set `run_eagerly=False` when calling `compile`."
        )
    for name in (f"make_{_NAMES[mode]}_function", f"{_NAMES[mode]}_step"):
        if getattr(type(model), name) is not getattr(TensorFlowTrainer, name):
            raise RuntimeError(
                f"The function `{name}` for the model {model.name} has been overridden. This is not supported when "
                "using Keras within an IPUStrategy. Either remove the override from your model definition or set "
                "`enable_keras_extensions=False` when creating the IPUStrategy."
            )


def warn_of_statistics(model: Any) -> None:
    """The original's pipelines do not update them; here they are, which its users should know."""
    found = [layer.name for layer in model._flatten_layers() if isinstance(layer, keras.layers.BatchNormalization)]
    if found and id(model) not in _warned:
        _warned.add(id(model))
        _logger.warning(
            "The moving statistics for keras.BatchNormalization layers in pipelined models (%s) are not properly "
            "updated when training on an IPU. Here they are, so that evaluation may differ from that on an IPU.",
            ", ".join(found),
        )
