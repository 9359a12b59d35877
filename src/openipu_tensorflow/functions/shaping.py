"""A traced function as one step that a device repeats.

In: the graph of a function and what it does with feeds. Out: a `Shape`: the graph of the step (the body of the
function's one loop over feeds, or the function itself), what goes in and out of it, how often it runs; or an error that
says which form of a function is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf
from openipu_tensorflow.functions.feeding import FunctionTrace, Handed, Taken


class StepGraph:
    """A body's graph, which captures what the function around it captures."""

    def __init__(self, body: Any, captures: Sequence[tuple[Any, Any]], variables: Sequence[Any]) -> None:
        self._body, self.captures, self.variables = body, list(captures), list(variables)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._body, name)


@dataclass(frozen=True, eq=False, kw_only=True)
class Shape:
    """One step."""

    graph: Any
    count: int
    taken: Sequence[Taken]
    handed: Sequence[Handed]
    given: Sequence[tuple[Any, Any]]  # (tensor of the graph, the function's input, or a value) the same in every step
    carried: Sequence[tuple[Any, Any, Any]]  # (tensor, its next value, its first value)
    outputs: Sequence[Any]  # tensors of the graph, returned by the function
    targets: Sequence[Any] = field(default_factory=list)
    results: dict[str, int] = field(default_factory=dict)  # loops: name of the function's tensor -> place in `carried`


def shape_function(function: Any, trace: FunctionTrace) -> Shape:
    """`function`: a ConcreteFunction."""
    graph = function.graph
    taken = [entry for entry in trace.taken if _is_inside(entry.graph, graph)]
    handed = [entry for entry in trace.handed if _is_inside(entry.graph, graph)]
    graphs = [*(entry.graph for entry in taken), *(entry.graph for entry in handed)]
    inner = {id(entry) for entry in graphs if entry is not graph}
    if not inner:
        arguments = list(graph.inputs[: len(graph.inputs) - len(graph.captures)])
        return Shape(
            graph=graph,
            count=1,
            taken=taken,
            handed=handed,
            given=[(tensor, tensor) for tensor in arguments],
            carried=[],
            outputs=list(function.outputs),
            targets=list(graph.control_outputs),
        )
    loops = [op for op in graph.get_operations() if op.type in ("While", "StatelessWhile")]
    if len(inner) > 1 or len(loops) != 1 or any(entry is graph for entry in graphs):
        raise NotImplementedError(
            "A function that strategy.run() gets may take from iterators and hand to outfeeds in one loop, "
            "`for _ in tf.range(n)`, or outside of loops: this one does so in several, or in a loop inside of another."
        )
    return _shape_loop(function, loops[0], graphs[0], taken, handed)


def _is_inside(graph: Any, around: Any) -> bool:
    while graph is not None:
        if graph is around:
            return True
        graph = getattr(graph, "outer_graph", None)
    return False


def _shape_loop(function: Any, loop: Any, body: Any, taken: Sequence[Taken], handed: Sequence[Handed]) -> Shape:
    graph = function.graph
    others = [op for op in graph.get_operations() if op is not loop and _works(op, loop)]
    if others:
        raise NotImplementedError(
            f"A function that strategy.run() gets does its work in its loop over feeds, and this one also computes "
            f"{others[0].name} ({others[0].type}) outside of it. Put it into the loop, or into a function of its own."
        )
    outer = {inner.name: value for value, inner in graph.captures}
    captures: list[tuple[Any, Any]] = []
    given: list[tuple[Any, Any]] = []
    pairs: list[tuple[Any, Any, Any, int]] = []
    arguments = {tensor.name for tensor in graph.inputs} - outer.keys()
    for place, (entry, left, first) in enumerate(zip(body.inputs, body.outputs, loop.inputs, strict=False)):
        if _follow(left) is entry:
            if first.name in outer:
                captures.append((outer[first.name], entry))
            elif first.name in arguments:
                given.append((entry, first))
            else:
                value = tf.get_static_value(first)
                if value is None:
                    raise NotImplementedError(
                        f"The loop reads {first.name}, whose value is not known when it is traced."
                    )
                captures.append((tf.constant(value), entry))
        else:
            pairs.append((entry, left, first, place))
    needed = _find_needed(
        body, pairs, [*(tensor for entry in handed for tensor in entry.tensors)], function.outputs, loop
    )
    carried: list[tuple[Any, Any, Any]] = []
    results: dict[str, int] = {}
    for entry, left, first, place in pairs:
        if place not in needed:
            continue
        value = tf.get_static_value(first)
        if value is None and first.name not in arguments:
            raise NotImplementedError(f"The loop begins with {first.name}, whose value is not known when it is traced.")
        results[loop.outputs[place].name] = len(carried)
        carried.append((entry, left, first if value is None else value))
    return Shape(
        graph=StepGraph(body, captures, graph.variables),
        count=_count_rounds(loop),
        taken=taken,
        handed=handed,
        given=given,
        carried=carried,
        outputs=[],
        targets=list(body.control_outputs),
        results=results,
    )


def _works(op: Any, loop: Any) -> bool:
    """Does an op outside of the loop compute something with values of a run?"""
    if op.type in ("Placeholder", "Const", "NoOp", "Identity", "Range", "_Arg", "_Retval"):
        return False
    return all(tf.get_static_value(tensor) is None for tensor in op.outputs) and not _leads_to_count(op, loop)


def _leads_to_count(op: Any, loop: Any) -> bool:
    """What only decides how often the loop runs."""
    waiting, seen = list(op.outputs), set()
    while waiting:
        tensor = waiting.pop()
        for reader in tensor.consumers():
            if reader is loop:
                if any(entry is tensor for entry in list(loop.inputs)[2:]) and tensor.dtype.is_floating:
                    return False
            elif reader.name not in seen:
                seen.add(reader.name)
                waiting.extend(reader.outputs)
    return not any(tensor.dtype.is_floating for tensor in op.outputs)


def _follow(tensor: Any) -> Any:
    """Back through ops that hand on what they get."""
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return tensor


def _find_needed(body: Any, pairs: Sequence[Any], handed: Sequence[Any], outputs: Sequence[Any], loop: Any) -> set[int]:
    """Places of carried values that results depend on: counters of rounds are none."""
    read = {_follow(tensor).name for tensor in outputs}
    needed = {place for _, _, _, place in pairs if loop.outputs[place].name in read}
    reached: set[str] = set()
    waiting = [*handed, *(tensor for op in body.control_outputs for tensor in op.inputs)]
    waiting += [left for _, left, _, place in pairs if place in needed]
    by_name = {entry.name: (left, place) for entry, left, _, place in pairs}
    while waiting:
        tensor = waiting.pop()
        if tensor.name in reached:
            continue
        reached.add(tensor.name)
        if tensor.name in by_name:
            left, place = by_name[tensor.name]
            needed.add(place)
            waiting.append(left)
        waiting.extend(tensor.op.inputs)
        waiting.extend(source for op in tensor.op.control_inputs for source in op.inputs)
    return needed


def _count_rounds(loop: Any) -> int:
    """`for _ in tf.range(n)`: the loop begins with the range's start, and reads its limit."""
    given = {tensor.name for tensor in loop.inputs}
    for op in loop.graph.get_operations():
        if op.type == "Range" and {op.inputs[0].name, op.inputs[1].name} <= given:
            bounds = [tf.get_static_value(tensor) for tensor in op.inputs]
            if all(value is not None for value in bounds) and len(range(*map(int, bounds))):
                return len(range(*map(int, bounds)))
    raise NotImplementedError(
        "How often the function's loop runs is not known when it is traced: use `for _ in tf.range(n)` with a number "
        "of Python's that is at least 1."
    )
