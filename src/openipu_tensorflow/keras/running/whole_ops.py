"""Layers that Keras writes with many ops, and TensorFlow has one op for: one op each while a step is traced."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from openipu_tensorflow.keras.running.norms import whole_norms
from openipu_tensorflow.keras.running.recurrent import whole_layers


@contextlib.contextmanager
def whole_ops(training: bool) -> Iterator[None]:
    """`training`: with what the gradients of recurrent layers need."""
    with whole_layers(training), whole_norms():
        yield
