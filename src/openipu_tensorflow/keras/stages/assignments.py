"""Records of which stage each layer is in, as `get_pipeline_stage_assignment` gives them and the user changes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class SequentialLayerPipelineStageAssignment:
    """A layer of a Sequential model and its stage."""

    is_nested_model = False

    def __init__(self, layer: Any, pipeline_stage: int | None = None) -> None:
        self._layer = layer
        self.pipeline_stage = pipeline_stage

    @property
    def layer(self) -> Any:
        return self._layer

    def __str__(self) -> str:
        return f"Layer: {self.layer.name} is assigned to pipeline stage: {self.pipeline_stage}"


class ModelLayerPipelineStageAssignment:
    """A call of a layer in a model and its stage."""

    is_nested_model = False

    def __init__(self, layer: Any, node_index: int, pipeline_stage: int | None = None) -> None:
        self._layer = layer
        self._node_index = node_index
        self.pipeline_stage = pipeline_stage

    @property
    def layer(self) -> Any:
        return self._layer

    @property
    def node_index(self) -> int:
        """Which call of the layer."""
        return self._node_index

    @property
    def inbound_layers(self) -> list[Any]:
        """Layers whose results this call reads."""
        return [node.operation for node in self._layer._inbound_nodes[self._node_index].parent_nodes]

    def __str__(self) -> str:
        return (
            f"Layer: {self.layer.name} (node index {self.node_index}) is assigned to pipeline stage: "
            f"{self.pipeline_stage}"
        )


class FunctionalLayerPipelineStageAssignment(ModelLayerPipelineStageAssignment):
    """A call of a layer in a functional model and its stage."""


class NestedModelPipelineStageAssignment:
    """A call of a model inside another, with the stages of its layers there."""

    is_nested_model = True

    def __init__(self, nested_model: Any, node_index: int, pipeline_stage_assignments: Sequence[Any]) -> None:
        self._nested_model = nested_model
        self._node_index = node_index
        self._assignments = list(pipeline_stage_assignments)

    @property
    def nested_model(self) -> Any:
        return self._nested_model

    @property
    def layer(self) -> Any:
        return self._nested_model

    @property
    def node_index(self) -> int:
        return self._node_index

    @property
    def pipeline_stage_assignments(self) -> list[Any]:
        """Of the layers inside, in their order; the list is a copy, the records are not."""
        return list(self._assignments)

    def __str__(self) -> str:
        inside = "".join(f"\n  {entry}" for entry in self._assignments)
        return (
            f"Model: {self.nested_model.name} (node index {self.node_index}) has the following pipeline stage "
            f"assignments:{inside}"
        )


class FunctionalNestedModelPipelineStageAssignment(NestedModelPipelineStageAssignment):
    """Of a functional model."""


class ModelNestedModelPipelineStageAssignment(NestedModelPipelineStageAssignment):
    """Of a subclassed model."""


class SequentialNestedModelPipelineStageAssignment(NestedModelPipelineStageAssignment):
    """Of a Sequential model."""
