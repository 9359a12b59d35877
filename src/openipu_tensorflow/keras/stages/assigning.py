"""Which stage each layer of a model is in.

In: a model, and what `PipelineStage` or `set_pipeline_stage_assignment` have said. Out: assignments, checked; the
stages of its calls in the order in which they run; or the original's error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import keras

from openipu_tensorflow.keras.stages.assignments import (
    FunctionalLayerPipelineStageAssignment,
    FunctionalNestedModelPipelineStageAssignment,
    ModelLayerPipelineStageAssignment,
    ModelNestedModelPipelineStageAssignment,
    SequentialLayerPipelineStageAssignment,
    SequentialNestedModelPipelineStageAssignment,
)
from openipu_tensorflow.keras.stages.pipeline_stage import stage_of_layer, stage_of_node

_KEPT = "_ipu_stage_assignment"


def list_nodes(model: Any) -> list[Any]:
    """The calls of a functional model's layers, in the order in which Keras runs them."""
    network = model._functional if isinstance(model, keras.Sequential) else model
    if not hasattr(network, "_nodes_by_depth"):
        network = _trace_subclass(model)
    known = {id(tensor) for tensor in network.inputs}
    found = []
    for depth in sorted(network._nodes_by_depth, reverse=True):
        for node in network._nodes_by_depth[depth]:
            if node.operation and not node.is_input and all(id(tensor) in known for tensor in node.input_tensors):
                known.update(id(tensor) for tensor in node.outputs)
                found.append(node)
    return found


def _trace_subclass(model: Any) -> Any:
    """A subclassed model as a functional one, from its `call` on symbolic inputs."""
    kept = model.__dict__.get("_ipu_network")
    if kept is not None:
        return kept
    shapes = getattr(model, "_build_shapes_dict", None)
    if not shapes:
        raise RuntimeError(
            f"The layers of the model {model.name} are not known before it has been built: call it on data, or call "
            "its build() with the shape of its input, first."
        )
    given = [keras.Input(batch_shape=shape) for shape in shapes.values()]
    try:
        outputs = model.call(*given)
    except Exception as error:
        raise NotImplementedError(
            f"The layers of the model {model.name} could not be listed, because its `call` does not work on symbolic "
            f"tensors ({type(error).__name__}: {error}). Use `with PipelineStage(n):` in its `call`; such a model is "
            "pipelined without a list."
        ) from error
    network = keras.Model(given, outputs)
    object.__setattr__(model, "_ipu_network", network)
    return network


def is_model(layer: Any) -> bool:
    return isinstance(layer, keras.Model)


def is_network(model: Any) -> bool:
    """Does Keras know which layers the model calls?"""
    return hasattr(model, "_nodes_by_depth") or isinstance(model, keras.Sequential)


def describe(model: Any) -> list[Any]:
    """`get_pipeline_stage_assignment`: what was set, else what the code says, else None for each call."""
    kept = getattr(model, _KEPT, None)
    if kept:
        return list(kept)
    if isinstance(model, keras.Sequential):
        return [
            SequentialNestedModelPipelineStageAssignment(layer, 0, describe(layer))
            if is_model(layer)
            else SequentialLayerPipelineStageAssignment(layer, stage_of_layer(layer))
            for layer in model.layers
        ]
    functional = hasattr(model, "_nodes_by_depth")
    one = FunctionalLayerPipelineStageAssignment if functional else ModelLayerPipelineStageAssignment
    nested = FunctionalNestedModelPipelineStageAssignment if functional else ModelNestedModelPipelineStageAssignment
    found: list[Any] = []
    for node in list_nodes(model):
        number = node.operation._inbound_nodes.index(node)
        if is_model(node.operation):
            found.append(nested(node.operation, number, describe(node.operation)))
        else:
            found.append(one(node.operation, number, stage_of_node(node)))
    return found


def assign(model: Any, given: Any) -> None:
    """`set_pipeline_stage_assignment`."""
    if not isinstance(given, list):
        raise ValueError("`pipeline_stage_assignment` needs to be a list.")
    current = describe(model)
    if len(given) != len(current):
        raise ValueError(
            f"The length of the provided `pipeline_stage_assignment` ({len(given)}) does not match the number of "
            f"layers in the graph ({len(current)}). Each layer, but for inputs, needs to be assigned a pipeline stage."
        )
    if isinstance(model, keras.Sequential):
        given = [
            SequentialLayerPipelineStageAssignment(entry.layer, said) if type(said) is int else said
            for entry, said in zip(current, given, strict=True)
        ]
    for entry, said in zip(current, given, strict=True):
        if not isinstance(said, type(entry)):
            what = "nested model" if entry.is_nested_model else "layer"
            raise ValueError(
                f"The pipeline stage assignment for {what} {entry.layer.name} in {model.name} must be an instance of "
                f"`{type(entry).__name__}`. Instead the assignment was of type {type(said).__name__}."
            )
        if said.layer is not entry.layer:
            raise ValueError(
                f"The order of `pipeline_stage_assignment` does not match the post-order generated from the graph "
                f"({said.layer.name} != {entry.layer.name})."
            )
    check(model, given)
    keep(model, given)


def reset(model: Any) -> None:
    """`reset_pipeline_stage_assignment`: the model is not pipelined."""
    object.__setattr__(model, _KEPT, None)
    if not isinstance(model, keras.Sequential) and hasattr(model, "_nodes_by_depth"):
        for node in list_nodes(model):
            node.__dict__.pop("_ipu_pipeline_stage", None)
    for layer in model.layers:
        layer.__dict__.pop("_ipu_pipeline_stage", None)


def flatten(assignments: Sequence[Any]) -> Iterator[Any]:
    """Of all layers, those of models inside included."""
    for entry in assignments:
        if entry.is_nested_model:
            yield from flatten(entry.pipeline_stage_assignments)
        else:
            yield entry


def check(model: Any, assignments: Sequence[Any]) -> None:
    """Every layer has a stage; stages are without gaps, and no layer reads from a later one."""
    flat = list(flatten(assignments))
    for entry in flat:
        if entry.pipeline_stage is None:
            raise ValueError(
                "All layers of a pipelined model must have an associated pipeline stage. However, "
                f"{entry.layer.name} has not been assigned to one. Say it where the layer is made or called, by "
                "`with PipelineStage(n):`, or by set_pipeline_stage_assignment()."
            )
    stages = {entry.pipeline_stage for entry in flat}
    if isinstance(model, keras.Sequential) and not any(entry.is_nested_model for entry in assignments):
        _check_sequence(flat)
    elif all(not entry.is_nested_model for entry in assignments):
        _check_order(model, assignments)
    missing = sorted(set(range(max(stages) + 1)) - stages)
    if missing:
        raise ValueError(
            f"No layer of the model {model.name} is assigned to pipeline stage {missing[0]}, and one is assigned to "
            f"{max(stages)}: stages are counted from 0 without gaps."
        )


def _check_sequence(flat: Sequence[Any]) -> None:
    before = 0
    for number, entry in enumerate(flat):
        if number == 0 and entry.pipeline_stage != 0:
            raise ValueError(
                "The first layer in a pipelined sequential model needs to be assigned to the 0th pipeline stage, "
                f"however it was assigned to {entry.pipeline_stage}."
            )
        if entry.pipeline_stage not in (before, before + 1):
            raise ValueError(
                f"Layer {entry.layer.name} has been assigned to pipeline stage {entry.pipeline_stage}, however the "
                f"previous layer in the Sequential model was assigned to pipeline stage {before}. A layer can only be "
                "in the same stage as the one before it, or in the next."
            )
        before = entry.pipeline_stage


def _check_order(model: Any, assignments: Sequence[Any]) -> None:
    stage_of = {id(entry.layer._inbound_nodes[entry.node_index]): entry.pipeline_stage for entry in assignments}
    for node in list_nodes(model):
        own = stage_of[id(node)]
        for parent in node.parent_nodes:
            if stage_of.get(id(parent), 0) > own:
                raise ValueError(
                    f"Layer {node.operation.name} in pipeline stage {own} has a dependency from a pipeline stage which "
                    f"has not yet been executed (that of {parent.operation.name}). Layers can only use outputs from "
                    "current or previous pipeline stages."
                )


def has_assignments(model: Any) -> bool:
    """Was a stage said of any of its layers?"""
    if getattr(model, _KEPT, None) is None:
        if not is_network(model) or (isinstance(model, keras.Sequential) and not model.layers):
            return False
        return any(entry.pipeline_stage is not None for entry in flatten(describe(model)))
    return True


def keep(model: Any, assignments: list[Any]) -> None:
    """Take them as they are: they are checked when the model runs."""
    object.__setattr__(model, _KEPT, assignments)


def find_assignments(model: Any) -> list[Any] | None:
    """The checked assignments of a pipelined model; None for one that is not pipelined."""
    if not has_assignments(model):
        return None
    found = describe(model)
    check(model, found)
    return found
