"""TensorFlow 2 as programs of TensorFlow 1 know it.

In: a process that has just imported TensorFlow, with `OPENIPU_TF1=1` (`openipu run --tf1` sets it). Out: graphs by
default, and `import tensorflow` gives the names of `tensorflow.compat.v1`, `tf.layers` included.
"""

from __future__ import annotations

import sys


def activate(name: str = "tensorflow") -> None:
    """Switch to the behaviour and the names of TensorFlow 1."""
    import tensorflow.compat.v1 as v1

    v1.disable_v2_behavior()
    v1.__path__ = sys.modules[name].__path__  # so that packages inside, such as tensorflow.keras, are still found
    restore_layers()
    sys.modules[name] = v1


def restore_layers() -> None:
    """Let `tf.layers` of TensorFlow 1 be what TensorFlow still has of it, where Keras 3 says that it has none."""
    import keras
    import tensorflow.compat.v1 as v1
    from tensorflow.python.util import lazy_loader

    if keras.__version__.startswith("3."):
        v1.layers = lazy_loader.LazyLoader("layers", vars(v1), "tensorflow.python.layers.layers")
