"""`AssumeEqualAcrossReplicas`"""

from __future__ import annotations

from typing import Any

import keras

from openipu_tensorflow.ipu.ops import cross_replica_ops


class AssumeEqualAcrossReplicas(keras.layers.Layer):  # type: ignore[misc]
    """Its inputs are taken to be the same on every replica."""

    def __init__(self, inplace: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._inplace = inplace

    def call(self, inputs: Any, **kwargs: Any) -> Any:
        return cross_replica_ops.assume_equal_across_replicas(inputs, self._inplace)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "inplace": self._inplace}
