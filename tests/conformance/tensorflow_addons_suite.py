"""A pytest plugin for the tests of `ipu_tensorflow_addons`, over that of TensorFlow's own suites.

In: `OPENIPU_ADDONS_CHECKOUT`. Out: helpers of these tests come from it, all else from openipu. What Keras 3 no longer
has and only the tests' own references use is put back here: places of classes, time-major layers, `updates`.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import tensorflow_suite  # noqa: F401 (the helpers of TensorFlow's suites)

import tensorflow as tf

ROOT = Path(os.environ["OPENIPU_ADDONS_CHECKOUT"]) / "ipu_tensorflow_addons"
HELPERS = ("keras.optimizers.test_util",)


def _load_helper(name: str) -> None:
    title = f"ipu_tensorflow_addons.{name}"
    spec = importlib.util.spec_from_file_location(title, ROOT / f"{name.replace('.', '/')}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[title] = module
    spec.loader.exec_module(module)


def _put_back() -> None:
    place = ModuleType("keras.engine.input_layer")
    place.Input = keras.Input  # type: ignore[attr-defined]
    sys.modules["keras.engine"] = ModuleType("keras.engine")
    sys.modules["keras.engine.input_layer"] = place
    for kind in ("LSTM", "GRU"):
        setattr(keras.layers, kind, _take_time_major(getattr(keras.layers, kind)))
        setattr(tf.keras.layers, kind, getattr(keras.layers, kind))
    keras.layers.Layer.updates = []  # states are written where they are made
    for name in ("save_weights", "load_weights"):
        setattr(keras.Model, name, _take_folder(getattr(keras.Model, name)))


def _take_folder(stock: Any) -> Any:
    """Weights in a folder, as Keras 2 wrote them: a file in it."""

    def method(self: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        return stock(self, Path(path) / "all.weights.h5" if Path(path).is_dir() else path, *args, **kwargs)

    return method


def _take_time_major(stock: Any) -> Any:
    """The stock layer, which also takes inputs with time first."""

    class Layer(stock):  # type: ignore[misc]
        def __init__(self, *args: Any, time_major: bool = False, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self._time_major = time_major

        def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if not self._time_major:
                return super().__call__(inputs, *args, **kwargs)
            found = super().__call__(tf.transpose(inputs, [1, 0, 2]), *args, **kwargs)
            first = found[0] if isinstance(found, list | tuple) else found
            turned = tf.transpose(first, [1, 0, 2]) if len(first.shape) == 3 else first
            return [turned, *found[1:]] if isinstance(found, list | tuple) else turned

    Layer.__name__ = stock.__name__
    return Layer


_put_back()
for helper in HELPERS:
    _load_helper(helper)
