"""`ipu.pipelining_ops`: see `pipelines/`."""

from __future__ import annotations

from typing import Any

from openipu_tensorflow.graphs.places import CHECKPOINT
from openipu_tensorflow.ipu.pipelines.enums import (
    _ALL_DEVICES,
    PipelineSchedule,
    PipelineStageOptions,
    RecomputationMode,
)
from openipu_tensorflow.ipu.pipelines.optimizer_output import OptimizerFunctionOutput
from openipu_tensorflow.ipu.pipelines.pipeline import pipeline

__all__ = [
    "_ALL_DEVICES",
    "OptimizerFunctionOutput",
    "PipelineSchedule",
    "PipelineStageOptions",
    "RecomputationMode",
    "pipeline",
    "recomputation_checkpoint",
]


def recomputation_checkpoint(tensors: Any, name: str | None = None) -> Any:
    """Keep these tensors where others are made again, unless the pipeline makes all again before it goes back."""
    from tensorflow.core.framework import attr_value_pb2
    from tensorflow.python.framework import ops
    from tensorflow.python.ops import array_ops
    from tensorflow.python.util import nest

    mark = {CHECKPOINT: attr_value_pb2.AttrValue(b=True)}
    with ops.get_default_graph()._attr_scope(mark):
        return nest.map_structure(lambda tensor: array_ops.identity(tensor, name=name), tensors)
