"""`keras.ipu`, `tf.keras.ipu` and `tensorflow.python.ipu.keras`: what Keras programs for IPUs import.

Importing it gives Keras' models their methods for IPUs; they run on one when they are made in the scope of an
`IPUStrategy`.
"""

import sys as _sys

import keras as _keras
import keras._tf_keras.keras as _tf_keras

from openipu_tensorflow.keras.extending import extend_keras
from openipu_tensorflow.keras.reductions import ReplicatedMetricReductionMethod
from openipu_tensorflow.keras.stages.assignments import (
    FunctionalLayerPipelineStageAssignment,
    FunctionalNestedModelPipelineStageAssignment,
    ModelLayerPipelineStageAssignment,
    ModelNestedModelPipelineStageAssignment,
    NestedModelPipelineStageAssignment,
    SequentialLayerPipelineStageAssignment,
    SequentialNestedModelPipelineStageAssignment,
)
from openipu_tensorflow.keras.stages.pipeline_stage import PipelineStage


def __getattr__(name: str) -> object:
    """Layers and optimizers are loaded when they are asked for: they need what imports this."""
    if name not in ("layers", "optimizers"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return importlib.import_module(f"openipu_tensorflow.keras.{name}")


extend_keras()
for _package in (_keras, _tf_keras):  # scripts say keras.ipu without importing it
    _package.ipu = _sys.modules[__name__]

__all__ = [
    "FunctionalLayerPipelineStageAssignment",
    "FunctionalNestedModelPipelineStageAssignment",
    "ModelLayerPipelineStageAssignment",
    "ModelNestedModelPipelineStageAssignment",
    "NestedModelPipelineStageAssignment",
    "PipelineStage",
    "ReplicatedMetricReductionMethod",
    "SequentialLayerPipelineStageAssignment",
    "SequentialNestedModelPipelineStageAssignment",
]
