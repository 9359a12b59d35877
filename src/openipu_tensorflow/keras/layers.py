"""`keras.ipu.layers`, and `ipu.keras.layers` and `ipu.layers` of older SDKs: layers for IPUs.

In: Keras layers. Out: those of `ipu_tensorflow_addons`, which were here until SDK 2.6; and layers around others that
capture gradients, which go to the `GradientCaptureTape` or context that is there when they are made, and in `fit` to
an optimizer whose `apply_gradients` takes `captured_grads`.
"""

from __future__ import annotations

from typing import Any

import keras

from openipu_tensorflow.addons.keras.layers import (
    GRU,
    LSTM,
    AssumeEqualAcrossReplicas,
    ConvertFromF8,
    ConvertToF8,
    CTCInferenceLayer,
    CTCLoss,
    CTCPredictionsLayer,
    Dense,
    Dropout,
    EffectiveTransformer,
    Embedding,
    GroupNorm,
    GroupNormalization,
    InstanceNorm,
    InstanceNormalization,
    LayerNorm,
    LayerNormalization,
    PopnnGRU,
    PopnnLSTM,
    RecomputationCheckpoint,
    SerialDense,
)
from openipu_tensorflow.ipu.ops.grad_util_ops import capture_upstream_gradients

__all__ = [
    "GRU",
    "LSTM",
    "AssumeEqualAcrossReplicas",
    "CTCInferenceLayer",
    "CTCLoss",
    "CTCPredictionsLayer",
    "CaptureActivationGradients",
    "CaptureUpstreamGradients",
    "ConvertFromF8",
    "ConvertToF8",
    "Dense",
    "Dropout",
    "EffectiveTransformer",
    "Embedding",
    "GroupNorm",
    "GroupNormalization",
    "InstanceNorm",
    "InstanceNormalization",
    "LayerNorm",
    "LayerNormalization",
    "PopnnGRU",
    "PopnnLSTM",
    "RecomputationCheckpoint",
    "SerialDense",
]


class _Capture(keras.layers.Layer):  # type: ignore[misc]
    """A layer around another one."""

    suffix = ""

    def __init__(self, layer: Any, tag: str | None = None, **kwargs: Any) -> None:
        if not isinstance(layer, keras.layers.Layer):
            raise ValueError(f"{type(self).__name__} can only wrap a Keras layer, not {layer!r}.")
        super().__init__(**kwargs)
        self.layer, self.tag = layer, layer.name + self.suffix if tag is None else tag

    def build(self, input_shape: Any) -> None:
        if not self.layer.built:
            self.layer.build(input_shape)

    def compute_output_shape(self, input_shape: Any) -> Any:
        return self.layer.compute_output_shape(input_shape)

    def get_config(self) -> dict[str, Any]:
        own = {"layer": keras.saving.serialize_keras_object(self.layer), "tag": self.tag}
        return {**super().get_config(), **own}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        return cls(**{**config, "layer": keras.saving.deserialize_keras_object(config["layer"])})


@keras.saving.register_keras_serializable("openipu")
class CaptureUpstreamGradients(_Capture):
    """The layer; the gradients of its results are captured under a tag."""

    suffix = "_cug"

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        return capture_upstream_gradients(self.layer(inputs, *args, **kwargs), tag=self.tag)


@keras.saving.register_keras_serializable("openipu")
class CaptureActivationGradients(_Capture):
    """The layer; the gradients of its activation's input are captured, under the tag with "_activation" behind."""

    suffix = "_cag"

    def __init__(self, layer: Any, tag: str | None = None, **kwargs: Any) -> None:
        super().__init__(layer, tag, **kwargs)
        activation = getattr(layer, "activation", None)
        if activation is None or hasattr(layer, "recurrent_activation"):
            raise ValueError(
                f"Layer {layer.name} does not use an activation function, or several, so is not supported by "
                "keras.ipu.layers.CaptureActivationGradients."
            )

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        activation, self.layer.activation = self.layer.activation, keras.activations.linear
        try:
            made = self.layer(inputs, *args, **kwargs)
        finally:
            self.layer.activation = activation
        return activation(capture_upstream_gradients(made, tag=f"{self.tag}_activation"))
