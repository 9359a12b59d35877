"""What a step is made of: a graph of TensorFlow as records, its variables by name.

In: a graph, tensors that are given and wanted. Out: a `StepGraph` for `openipu.translate.tensorflow`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch

import tensorflow as tf
from openipu.errors import TranslationError
from openipu.translate.foreign import ForeignGraph, ForeignNode, TensorType
from openipu.translate.tensorflow.steps import StepGraph
from openipu_tensorflow.engine.marks import identify
from openipu_tensorflow.graphs.formats import find_format, to_torch
from openipu_tensorflow.graphs.reading import find_type, list_variables, read_graph


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class DescribedStep(StepGraph):
    """A step graph, with the types that TensorFlow gives its variables."""

    dtypes: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def describe_step(
    graph: Any,
    *,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    targets: Sequence[Any] = (),
    carried: Sequence[tuple[Any, Any]] = (),
    fixed: Sequence[Any] = (),
    gradients: Mapping[str, Any] | None = None,
    batches: int = 1,
    name: str = "graph",
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> DescribedStep:
    """Read what makes the outputs, and what the targets do. `batches`: micro-batches in a run. `shapes`: those of given
    tensors whose sizes the graph leaves open."""
    entries = [entry for entry, _ in carried]
    wanted = [*outputs, *(left for _, left in carried)]
    read = read_graph(graph, inputs=[*inputs, *entries, *fixed], outputs=wanted, targets=targets, name=name)
    sources = _Sources(graph, read.sources)
    for tensor in fixed:
        sources.variables[tensor.name] = _close_type(find_type(tensor), (shapes or {}).get(tensor.name))
        sources.dtypes[tensor.name] = tensor.dtype
    kinds = {key: _close_type(kind, (shapes or {}).get(key)) for key, kind in read.graph.inputs.items()}
    foreign = dataclasses.replace(read.graph, inputs=kinds, outputs=tuple(tensor.name for tensor in outputs))
    if batches > 1:
        foreign = _lengthen_scalars(foreign, [tensor.name for tensor in inputs])
    return DescribedStep(
        graph=foreign,
        handles=sources.handles,
        variables=sources.variables,
        gradients={key: tensor.name for key, tensor in (gradients or {}).items()},
        marks=sources.marks,
        constants=sources.constants,
        carried={entry.name: left.name for entry, left in carried},
        dtypes=sources.dtypes,
    )


def _close_type(kind: TensorType, shape: tuple[int, ...] | None) -> TensorType:
    """With the sizes that a value has, where they are not known otherwise."""
    return kind if shape is None or kind.fixed_shape is not None else TensorType(kind.dtype, shape)


class _Sources:
    """What a graph takes from outside: variables by name, and values that a function captured."""

    def __init__(self, graph: Any, sources: Mapping[str, Any]) -> None:
        self.handles: dict[str, str] = {}
        self.variables: dict[str, TensorType] = {}
        self.dtypes: dict[str, Any] = {}
        self.constants: dict[str, torch.Tensor] = {}
        self.marks: dict[str, str] = {}
        captures = {inner.name: outer for outer, inner in getattr(graph, "captures", ())}
        named = name_variables(graph)
        for name, tensor in sources.items():
            if tensor.dtype == tf.resource:
                self._add_variable(name, tensor, captures.get(name), named)
            elif name in captures and hasattr(captures[name], "numpy"):
                self.constants[name] = to_torch(captures[name].numpy())
            else:
                raise TranslationError(f"The program needs {name!r}, which nobody gives it: name it among its inputs.")

    def _add_variable(self, name: str, tensor: Any, outer: Any, named: Mapping[int, tuple[str, Any]]) -> None:
        found = named.get(id(tensor if outer is None else outer))
        if found is None and tensor.op.type != "VarHandleOp":
            raise TranslationError(f"{name} is a handle of no variable that the graph knows.")
        if found is not None:
            title, variable = found
            dtype, shape = variable.dtype, variable.shape
            self.marks[identify(variable)] = title
        else:
            title = tensor.op.name
            dtype, shape = tensor.op.get_attr("dtype"), tf.TensorShape(tensor.op.get_attr("shape"))
        held = find_format(dtype)
        if held is None or not shape.is_fully_defined():
            raise TranslationError(
                f"Variable {title!r} is {tf.as_dtype(dtype).name}{shape}: an IPU holds numbers of a fixed shape."
            )
        self.handles[name] = title
        self.variables[title] = TensorType(held, tuple(shape.as_list()))
        self.dtypes[title] = tf.as_dtype(dtype)


def name_variables(graph: Any) -> dict[int, tuple[str, Any]]:
    """Variables by the identity of their handles, each with a name that no other has."""
    found: dict[int, tuple[str, Any]] = {}
    taken: set[str] = set()
    for variable in list_variables(graph):
        if not hasattr(variable, "handle"):  # of the old kind, which stays on the host
            continue
        name = str(variable.name).rpartition(":")[0] or str(variable.name)
        number, title = 0, name
        while title in taken:
            number += 1
            title = f"{name}_{number}"
        taken.add(title)
        found[id(variable.handle)] = (title, variable)
    return found


def _lengthen_scalars(graph: ForeignGraph, names: Sequence[str]) -> ForeignGraph:
    """A scalar of each micro-batch is a vector of one element: micro-batches lie behind one another."""
    inputs, nodes = dict(graph.inputs), list(graph.nodes)
    for name in names:
        kind = graph.inputs[name]
        if kind.shape == ():
            inputs = {(f"{key}/vector" if key == name else key): value for key, value in inputs.items()}
            inputs[f"{name}/vector"] = TensorType(kind.dtype, (1,))
            nodes.insert(0, ForeignNode("Squeeze", (f"{name}/vector",), (name,), name=f"{name}/scalar"))
    return dataclasses.replace(graph, inputs=inputs, nodes=tuple(nodes))
