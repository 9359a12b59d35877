"""A `tf.Graph`, or the graph of a `tf.function`, as a `ForeignGraph`.

In: a graph, tensors that are given, tensors and ops that are wanted. Out: the nodes that these need, in the order in
which TensorFlow made them (which is one in which they can run); handles of variables among the inputs.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

import tensorflow as tf
from openipu.errors import TranslationError
from openipu.translate.foreign import ForeignGraph, ForeignNode, TensorType
from openipu.translate.tensorflow.steps import GRADIENT_MARK
from openipu_tensorflow.graphs.device_ops import read_device_op
from openipu_tensorflow.graphs.formats import find_format, read_attribute
from openipu_tensorflow.graphs.places import CHECKPOINT, OUTSIDE, PARTIALS, find_position

_OLD_LOOPS = ("Enter", "Exit", "NextIteration", "Merge", "Switch", "LoopCond", "RefEnter", "RefMerge", "RefSwitch")
_SOURCES = ("Placeholder", "VarHandleOp", "_Arg")
_KEPT = ("Identity", "IdentityN", "StopGradient", "Snapshot")  # hand on what another op has made
_MARKS = (GRADIENT_MARK, OUTSIDE, PARTIALS)


@dataclass(frozen=True, eq=False)
class ReadGraph:
    """`sources`: tensors that no node makes and that are not given: captured values, handles of variables."""

    graph: ForeignGraph
    sources: Mapping[str, Any]


def read_graph(
    graph: Any, *, inputs: Sequence[Any], outputs: Sequence[Any], targets: Sequence[Any] = (), name: str = "graph"
) -> ReadGraph:
    """`inputs` and `outputs` are tensors, `targets` ops that run for their effect."""
    given = {tensor.name for tensor in inputs}
    ops = _find_needed(graph, given, [*(tensor.op for tensor in outputs if tensor.name not in given), *targets])
    reader = _Reader(graph, ops)
    sources: dict[str, Any] = {}
    nodes: list[ForeignNode] = []
    for op in ops:
        if op.type in _SOURCES:
            sources.update((tensor.name, tensor) for tensor in op.outputs if tensor.name not in given)
            continue
        nodes.append(reader.read_node(op, len(nodes)))
    types = {tensor.name: find_type(tensor) for tensor in inputs}
    foreign = ForeignGraph(name, tuple(nodes), types, tuple(tensor.name for tensor in outputs))
    return ReadGraph(foreign, sources)


def wants_half_partials(graph: ForeignGraph) -> bool:
    """Does any op of a graph, or of what it calls, ask for partials in half?"""
    return any(
        node.attributes.get(PARTIALS) == "half" or any(wants_half_partials(body) for body in node.bodies)
        for node in graph.nodes
    )


def find_type(tensor: Any) -> TensorType:
    """The declared type of a tensor that a program is given."""
    dtype = find_format(tensor.dtype)
    if dtype is None:
        raise TranslationError(
            f"{tensor.name} is a tensor of {tensor.dtype.name}, and no IPU has such: keep it on the host."
        )
    return TensorType(dtype, tuple(tensor.shape.as_list()) if tensor.shape.rank is not None else None)


def _find_needed(graph: Any, given: set[str], wanted: Sequence[Any]) -> list[Any]:
    """All ops that some others need, in the order in which they were made."""
    found: dict[Any, None] = {}
    waiting = list(wanted)
    while waiting:
        op = waiting.pop()
        if op in found:
            continue
        found[op] = None
        waiting.extend(_list_sources(op, given))
    return _order(graph, found, given)


def _list_sources(op: Any, given: set[str]) -> set[Any]:
    """The ops that come before another. One whose results are all given has no part in the program."""
    sources = {tensor.op for tensor in op.inputs if tensor.name not in given}
    for before in op.control_inputs:
        if not before.outputs or any(tensor.name not in given for tensor in before.outputs):
            sources.add(before)
    return sources


def _order(graph: Any, needed: Collection[Any], given: set[str]) -> list[Any]:
    """In the order in which they were made, but each after those that it needs: a loop gets inputs later on, which
    collect what its gradient will read."""
    waits: dict[Any, int] = {}
    readers: dict[Any, list[Any]] = {}
    for op in needed:
        sources = _list_sources(op, given)
        waits[op] = len(sources)
        for source in sources:
            readers.setdefault(source, []).append(op)
    positions = {op: place for place, op in enumerate(graph.get_operations())}
    ready = [(positions[op], place, op) for place, op in enumerate(needed) if not waits[op]]
    heapq.heapify(ready)
    ordered: list[Any] = []
    while ready:
        op = heapq.heappop(ready)[2]
        ordered.append(op)
        for reader in readers.get(op, ()):
            waits[reader] -= 1
            if not waits[reader]:
                heapq.heappush(ready, (positions[reader], len(ordered), reader))
    if len(ordered) < len(needed):
        stuck = next(op for op in needed if waits[op] > 0)
        raise TranslationError(
            f"{stuck.name} ({stuck.type}) is part of a cycle: a loop in the old form, which has no translation. Call "
            "tf.compat.v1.enable_control_flow_v2() before the graph is built."
        )
    return ordered


def _is_read(key: str) -> bool:
    return not key.startswith("_") or key in _MARKS


def _list_definitions(graph: Any) -> Mapping[str, Any]:
    """What TensorFlow knows of each op of a graph, by name: all at once, which is much quicker than one by one."""
    return {definition.name: definition for definition in graph.as_graph_def().node}


def _find_checkpoints(ops: Sequence[Any], definitions: Mapping[str, Any]) -> set[str]:
    """Names of the ops whose results are marked: a mark is an op of its own, which only hands them on."""
    found: set[str] = set()
    for op in ops:
        if CHECKPOINT in definitions[op.name].attr:
            tensor = op.inputs[0]
            while tensor.op.type in _KEPT:
                tensor = tensor.op.inputs[tensor.value_index]
            found.add(tensor.op.name)
    return found


class _Reader:
    """Reads ops of one graph and of the functions that it calls."""

    def __init__(self, graph: Any, ops: Sequence[Any]) -> None:
        self._graph, self._definitions = graph, _list_definitions(graph)
        self._checkpoints = _find_checkpoints(ops, self._definitions)
        self._bodies: dict[str, ForeignGraph] = {}

    def read_node(self, op: Any, number: int) -> ForeignNode:
        if op.type in _OLD_LOOPS:
            raise TranslationError(
                f"{op.name} ({op.type}) belongs to a loop in the old form, which has no translation. Call "
                "tf.compat.v1.enable_control_flow_v2() before the graph is built."
            )
        definition = self._definitions[op.name]
        position = find_position(op.name, definition.attr)
        own = read_device_op(definition.attr)
        attributes = {key: self._read_attribute(value) for key, value in definition.attr.items() if _is_read(key)}
        return ForeignNode(
            op=op.type if own is None else own[0],
            inputs=tuple(tensor.name for tensor in op.inputs),
            outputs=tuple(tensor.name for tensor in op.outputs),
            attributes=attributes if own is None else own[1],
            name=op.name,
            number=number,
            scope=position.scope,
            place=position.place,
            part=position.part,
            notes={"checkpoint": True} if op.name in self._checkpoints else {},
        )

    def _read_attribute(self, value: Any) -> Any:
        kind = value.WhichOneof("value")
        if kind == "func":
            return self._read_function(value.func.name)
        if kind == "list" and len(value.list.func):
            return [self._read_function(entry.name) for entry in value.list.func]
        return read_attribute(value)

    def _read_function(self, name: str) -> ForeignGraph:
        if name not in self._bodies:
            body = _find_function(self._graph, name)
            wanted = [*(tensor.op for tensor in body.outputs), *_list_effects(body)]
            given = {tensor.name for tensor in body.inputs}
            ops = [op for op in _find_needed(body, given, wanted) if op.type not in _SOURCES]
            inner = _Reader(body, ops)
            inner._bodies = self._bodies
            self._bodies[name] = ForeignGraph(
                name,
                tuple(inner.read_node(op, number) for number, op in enumerate(ops)),
                {tensor.name: _describe(tensor) for tensor in body.inputs},
                tuple(tensor.name for tensor in body.outputs),
            )
        return self._bodies[name]


def _list_effects(body: Any) -> list[Any]:
    """Ops of a function that run whether or not anybody reads their results."""
    return list(getattr(body, "control_outputs", None) or ())


def _describe(tensor: Any) -> TensorType:
    """The type of a function's input; of a handle or a list only that it is one."""
    dtype = find_format(tensor.dtype)
    shape = tuple(tensor.shape.as_list()) if tensor.shape.rank is not None else None
    return TensorType(torch.float32 if dtype is None else dtype, shape)


def _find_function(graph: Any, name: str) -> Any:
    """The graph of a function that a graph calls."""
    around = graph
    while around is not None:
        found = around._get_function(name)
        body = getattr(found, "graph", None)
        if body is not None:
            return body
        if found is not None:
            from tensorflow.python.framework import function_def_to_graph

            with around.as_default():  # where functions that it calls are looked for
                return function_def_to_graph.function_def_to_graph(found.cached_definition)
        around = getattr(around, "outer_graph", None)
    raise TranslationError(
        f"The graph calls function {name!r} and does not hold it: it is damaged, or from another graph."
    )


def list_variables(graph: Any) -> list[tf.Variable]:
    """The variables that a function captured, or that a graph made."""
    if hasattr(graph, "variables") and not callable(graph.variables):
        return list(graph.variables)
    return list(graph.get_collection("variables"))
