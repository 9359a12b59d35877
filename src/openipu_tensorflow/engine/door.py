"""The one door: a TensorFlow graph becomes a compiled step.

In: a graph (`tf.Graph`, or the `FuncGraph` of a `tf.function`), tensors that are given to it for each micro-batch,
tensors and ops that are wanted, and `RunOptions`. Out: a `Step`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import tensorflow as tf
from openipu.errors import TranslationError
from openipu.graph import Program, RunOptions
from openipu.machine import System
from openipu.session import FrontEnd, compile_program
from openipu.translate.foreign import ForeignGraph, ForeignNode, TensorType
from openipu.translate.tensorflow.steps import StepGraph, StepProgram, capture_step
from openipu_tensorflow.engine.host_ops import make_table
from openipu_tensorflow.engine.marks import identify
from openipu_tensorflow.engine.step import Port, Step, StepVariable
from openipu_tensorflow.graphs.formats import find_format, to_torch
from openipu_tensorflow.graphs.reading import find_type, list_variables, read_graph


def compile_step(
    graph: Any,
    *,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    targets: Sequence[Any] = (),
    carried: Sequence[tuple[Any, Any]] = (),
    gradients: Mapping[str, Any] | None = None,
    options: RunOptions = RunOptions(),  # noqa: B008 (frozen)
    name: str = "",
    system: System | str | None = None,
    reserve: Callable[[Program], None] | None = None,
    profile_directory: Path | None = None,
    cache_directory: Path | None = None,
    show_progress: bool | Callable[[int], None] = False,
) -> Step:
    """Compile what makes `outputs`, and what `targets` do to variables.

    graph: whose tensors and ops the others are. A captured `tf.function` has its own: `concrete_function.graph`.
    inputs: given for each micro-batch; any tensors of the graph, which is cut there.
    outputs: returned for each micro-batch.
    targets: ops that run for their effect, such as a train op.
    carried: pairs (an input, what it is in the next micro-batch): their first values are given to `run`, the last ones
        come back from it.
    gradients: name of a variable -> the tensor that is its gradient, where neither marks (`mark_gradients`) nor an
        update of TensorFlow 1 says so. A step with gradients is cut there into what runs for each micro-batch and what
        runs once for an update, as far as nothing else connects the two (`Step.entangled`).
    options: `gradient_accumulation` and `replicas` above 1 need a step that can be cut, or one without gradients.
        `training` is set here.
    reserve: takes IPUs for the program, and raises where there are not enough.
    """
    title = name or getattr(graph, "name", "") or "graph"
    entries = [entry for entry, _ in carried]
    wanted = [*outputs, *(left for _, left in carried)]
    read = read_graph(graph, inputs=[*inputs, *entries], outputs=wanted, targets=targets, name=title)
    sources = _Sources(graph, read.sources)
    foreign = dataclasses.replace(read.graph, outputs=tuple(tensor.name for tensor in outputs))
    batches = options.micro_batches
    if batches > 1:
        foreign = _lengthen_scalars(foreign, [tensor.name for tensor in inputs])
    step = StepGraph(
        graph=foreign,
        handles=sources.handles,
        variables=sources.variables,
        gradients={key: tensor.name for key, tensor in (gradients or {}).items()},
        marks=sources.marks,
        constants=sources.constants,
        carried={entry.name: left.name for entry, left in carried},
    )
    shared = options.gradient_accumulation * options.replicas > 1
    captured = capture_step(step, name=title, table=make_table(), must_cut=shared and options.training)
    options = dataclasses.replace(options, training=captured.program.training, broadcast_buffers=False)
    compiled = compile_program(
        captured.program,
        options=options,
        system=system,
        profile_directory=profile_directory,
        cache_directory=cache_directory,
        show_progress=show_progress,
        front_end=FrontEnd(reserve=reserve),
    )
    return Step(
        compiled,
        captured,
        _describe_variables(captured, sources),
        [_make_port(tensor) for tensor in inputs],
        [_make_port(tensor) for tensor in outputs],
        [_make_port(tensor) for tensor in entries],
        {**sources.variables, **{entry.name: find_type(entry) for entry in entries}},
    )


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


def _make_port(tensor: Any) -> Port:
    return Port(tensor.name, tensor.dtype, tuple(tensor.shape.as_list() or ()) if tensor.shape.rank is not None else ())


def _describe_variables(captured: StepProgram, sources: _Sources) -> dict[str, StepVariable]:
    update = captured.program.update
    trained = set() if update is None else {entry.name for entry in update.outputs}
    held = dict.fromkeys([*captured.parameters, *captured.buffers, *captured.states])
    return {
        name: StepVariable(
            name,
            sources.dtypes[name],
            sources.variables[name].fixed_shape or (),
            name in trained,
            name in captured.written,
        )
        for name in held
        if name in sources.dtypes
    }
