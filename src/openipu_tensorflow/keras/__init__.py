"""`keras.ipu`, `tf.keras.ipu` and `tensorflow.python.ipu.keras`: what Keras programs for IPUs import.

Importing it gives Keras' models their methods for IPUs; they run on one when they are made in the scope of an
`IPUStrategy`.
"""

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

extend_keras()

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
