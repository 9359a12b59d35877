"""`RecomputationCheckpoint`"""

from __future__ import annotations

from typing import Any

import keras

from openipu_tensorflow.ipu.ops import pipelining_ops


class RecomputationCheckpoint(keras.layers.Layer):  # type: ignore[misc]
    """Its inputs are kept where others are made again."""

    def call(self, inputs: Any, **kwargs: Any) -> Any:
        return pipelining_ops.recomputation_checkpoint(inputs, name=self.name)
