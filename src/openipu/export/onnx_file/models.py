"""Programs as ONNX models.

In: a `Snapshot`. Out: models by name. Inference is one model with its weights inside. Training is two: `micro` computes
outputs, loss, gradients and new buffers; `update` computes new weights and optimizer state. Weights and settings are
inputs of theirs with initial values, so a caller feeds back what came out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import fx

from openipu import __version__
from openipu.export.onnx_file.lowering import Lowering
from openipu.export.onnx_file.writer import IR_VERSION, OPSET, GraphWriter, Value
from openipu.export.snapshot import Snapshot
from openipu.export.trees import find_keys
from openipu.graph import Graph, GraphInput, GraphOutput, InputKind, OutputKind, OutputTree

if TYPE_CHECKING:
    import onnx

_FED = {InputKind.INPUT: "", InputKind.GRADIENT: "gradient:"}  # inputs that have no value yet
_PREFIXES = {
    OutputKind.OUTPUT: "",
    OutputKind.LOSS: "",
    OutputKind.GRADIENT: "gradient:",
    OutputKind.BUFFER: "new:",
    OutputKind.PARAMETER: "new:",
    OutputKind.CARRIED: "new:",
    OutputKind.STATE: "new:",
    OutputKind.INPUT: "new:",
}


@dataclass(frozen=True, eq=False)
class OnnxGraph:
    """A model, and which of the program's inputs and outputs its own are."""

    model: onnx.ModelProto
    inputs: dict[str, GraphInput]  # those that a caller must give
    outputs: dict[str, GraphOutput]


def build_models(snapshot: Snapshot) -> dict[str, OnnxGraph]:
    """{"": the model} for inference, {"": micro, "update": update} for training."""
    program = snapshot.program
    models = {"": _build(snapshot, program.micro, trained=program.training)}
    if program.update is not None:
        models["update"] = _build(snapshot, program.update, trained=True)
    return models


def _build(snapshot: Snapshot, graph: Graph, *, trained: bool) -> OnnxGraph:
    from onnx import helper

    writer = GraphWriter()
    wished = {entry.node: _FED.get(entry.kind, "") + entry.name for entry in graph.inputs}
    names = {entry.node: writer.claim(wished[entry.node] or entry.node) for entry in graph.inputs}
    results: Any = graph.module.graph.output_node().args[0]
    wanted = _choose_outputs(snapshot, graph, results)
    places = {position: writer.claim(name) for position, name in wanted.items()}
    values = {entry.node: Value(names[entry.node], entry.shape, entry.dtype) for entry in graph.inputs}
    held = {values[entry.node].name: snapshot.find_value(entry) for entry in graph.inputs if entry.kind not in _FED}
    found = Lowering(writer).lower(graph.module.graph, values, list(results))
    described = {name: graph.outputs[position] for position, name in places.items()}
    outputs = [_rename(writer, found[position], name) for position, name in places.items()]
    fed = [entry for entry in graph.inputs if entry.kind in _FED]
    open_inputs = [values[entry.node] for entry in (graph.inputs if trained else fed) if entry.kind is not _CONSTANT]
    proto = writer.build(snapshot.program.name or "program", open_inputs, outputs, held)
    model = helper.make_model(
        proto,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="openipu",
        producer_version=__version__,
    )
    return OnnxGraph(model, {values[entry.node].name: entry for entry in fed}, described)


_CONSTANT = InputKind.CONSTANT


def _choose_outputs(snapshot: Snapshot, graph: Graph, results: Sequence[fx.Node]) -> dict[int, str]:
    """Which results are returned, and as what. A loss that is an output of the name is returned once."""
    keys = _list_keys(snapshot.program.output_tree)
    chosen: dict[int, str] = {}
    for position, entry in enumerate(graph.outputs):
        known = entry.kind is OutputKind.OUTPUT and entry.index in keys
        name = keys[entry.index] if known else f"{_PREFIXES[entry.kind]}{entry.name}"
        if not any(other == name and results[place] is results[position] for place, other in chosen.items()):
            chosen[position] = name
    return chosen


def _list_keys(tree: OutputTree) -> dict[int, str]:
    """What forward called its results, where it returned a dict, or something like it, of tensors."""
    keys = find_keys(tree.spec)
    if keys is None or not all(child.is_leaf() for child in tree.spec.children()):
        return {}
    return {index: str(key) for index, key in enumerate(keys)}


def _rename(writer: GraphWriter, value: Value, name: str) -> Value:
    """A result under its own name; it may be an input, or stand for two results."""
    from onnx import helper

    node = helper.make_node("Identity", [value.name], [name])
    writer.nodes.append(node)
    return Value(name, value.shape, value.dtype)
