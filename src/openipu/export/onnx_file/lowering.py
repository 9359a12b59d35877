"""FX graphs -> ONNX graphs.

In: a `Graph`, and the values that its inputs are. Out: nodes in a `GraphWriter`, and the values of its outputs. A node
is written by its rule; where there is none, what it decomposes into is traced and lowered in its place; where there is
nothing of that either, the node is refused with the user's line.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx

from openipu.errors import ExportError
from openipu.export.onnx_file.decompositions import Decomposition, find_decomposition
from openipu.export.onnx_file.rules import find_rule
from openipu.export.onnx_file.site import Result, Site
from openipu.export.onnx_file.writer import GraphWriter, Value, code_of
from openipu.export.places import describe_place, title_node
from openipu.graph import BranchCall, Graph, GraphCall, LoopCall, has_effects

_DEEPEST = 8  # decompositions of decompositions


class Lowering:
    """Lowers graphs into one writer."""

    def __init__(self, writer: GraphWriter) -> None:
        self._writer = writer

    def lower(self, graph: fx.Graph, inputs: Mapping[str, Value], results: Sequence[fx.Node]) -> list[Value]:
        """The values of some nodes of a captured graph. `inputs`: by the names of placeholders."""
        values: dict[fx.Node, Any] = {}
        for node in _find_live(graph, results):
            if node.op == "placeholder":
                values[node] = inputs[node.name]
                continue
            self._writer.documentation = title_node(node)
            values[node] = self._lower_captured(node, values)
        return [_take(values[node]) for node in results]

    def _lower_captured(self, node: fx.Node, values: Mapping[fx.Node, Any]) -> Any:
        try:
            if isinstance(node.target, GraphCall):
                return self._lower_call(node, node.target, values)
            return self._lower_node(node, values, 0)
        except (ExportError, NotImplementedError) as error:
            detail = f" ({error})" if str(error) else ""
            raise ExportError(
                f"{node.target} has no counterpart in ONNX{describe_place(node)}{detail}. Export the program as a "
                "PyTorch file (--to torch), or write what it computes with other operators."
            ) from error

    def _lower_node(self, node: fx.Node, values: Mapping[fx.Node, Any], depth: int) -> Any:
        if node.target is operator.getitem:
            found = values[node.args[0]]  # type: ignore[index]
            value = found[node.args[1]]
            if value is None:
                raise ExportError(f"result {node.args[1]} of {node.args[0]} is not made")
            return value
        if node.op != "call_function":
            raise ExportError(f"{node.op} {node.target}")
        rule, target = find_rule(node.target), node.target
        arguments = _read_arguments(node, values)
        if rule is not None:
            made = len(self._writer.nodes)
            try:
                return rule(Site(self._writer, arguments, _list_results(node), _find_used(node)))
            except NotImplementedError:
                del self._writer.nodes[made:]
        decomposition = find_decomposition(target)
        if decomposition is None or depth >= _DEEPEST:
            raise ExportError("" if depth == 0 else f"it leads to {target}")
        return self._decompose(node, decomposition, values, depth)

    def _decompose(self, node: fx.Node, decomposition: Decomposition, values: Mapping[fx.Node, Any], depth: int) -> Any:
        traced = _trace(decomposition, node, values)
        inner: dict[fx.Node, Any] = {}
        operands = iter(_list_operands(node, values))
        output: Any = traced.graph.output_node().args[0]
        used = _find_used(node)
        results = [output] if isinstance(output, fx.Node) else [output[index] for index in sorted(used)]
        wanted = [entry for entry in results if isinstance(entry, fx.Node)]
        live = set(_find_live(traced.graph, wanted))
        for entry in traced.graph.nodes:
            if entry.op == "placeholder":
                inner[entry] = next(operands)
            elif entry.op == "get_attr":
                inner[entry] = self._writer.constant(getattr(traced, str(entry.target)))
            elif entry in live:
                inner[entry] = self._lower_node(entry, inner, depth + 1)
        if isinstance(output, fx.Node):
            return inner[output]
        return tuple(inner.get(entry) if isinstance(entry, fx.Node) else None for entry in output)

    def _lower_call(self, node: fx.Node, call: GraphCall, values: Mapping[fx.Node, Any]) -> Result:
        operands = [values[operand] for operand in node.args]  # type: ignore[index]
        results = _list_results(node)
        if type(call) is BranchCall:
            condition, *rest = operands
            first = len(call.chosen.inputs)
            bodies = [
                self._lower_body(graph, own, name)
                for graph, own, name in (
                    (call.chosen, rest[:first], "then"),
                    (call.otherwise, rest[first:], "else"),
                )
            ]
            scalar = _as_condition(self._writer, condition)
            shapes = [(result.shape, result.dtype) for result in results]
            return self._writer.add("If", [scalar], shapes, then_branch=bodies[0], else_branch=bodies[1])
        if type(call) is LoopCall:
            return self._lower_loop(call, operands, results)
        raise ExportError("it is a function of this process")

    def _lower_loop(self, call: LoopCall, operands: Sequence[Value], results: Sequence[torch.Tensor]) -> Result:
        writer = self._writer.inner()
        lowering = Lowering(writer)
        step = Value(writer.claim("step"), (), torch.int64)
        go_on = Value(writer.claim("go_on"), (), torch.bool)
        carried = [Value(writer.claim("carried"), value.shape, value.dtype) for value in operands[: call.carried]]
        inputs = [*carried, *operands[call.carried :]]
        outputs = lowering._lower_graph(call.body, inputs)
        same = writer.one("Identity", [go_on], (), torch.bool)
        body = writer.build("body", [step, go_on, *carried], [same, *_own_names(writer, outputs)])
        count = self._writer.constant(torch.tensor(call.count))
        true = self._writer.constant(torch.tensor(True))
        shapes = [(result.shape, result.dtype) for result in results]
        return self._writer.add("Loop", [count, true, *operands[: call.carried]], shapes, body=body)

    def _lower_body(self, graph: Graph, operands: Sequence[Value], name: str) -> Any:
        writer = self._writer.inner()
        outputs = Lowering(writer)._lower_graph(graph, operands)
        return writer.build(name, [], _own_names(writer, outputs))

    def _lower_graph(self, graph: Graph, operands: Sequence[Value]) -> list[Value]:
        inputs = {entry.node: operand for entry, operand in zip(graph.inputs, operands, strict=True)}
        outputs: Any = graph.module.graph.output_node().args[0]
        return self.lower(graph.module.graph, inputs, list(outputs))


def _own_names(writer: GraphWriter, values: Sequence[Value]) -> list[Value]:
    """Each result under a name that this graph makes: it may be a value of an outer one, or be returned twice."""
    return [writer.one("Identity", [value], value.shape, value.dtype, name="result") for value in values]


def _as_condition(writer: GraphWriter, value: Value) -> Value:
    if value.dtype is not torch.bool:
        value = writer.one("Cast", [value], value.shape, torch.bool, to=code_of(torch.bool))
    if value.shape:
        value = writer.one("Reshape", [value, writer.constant([], torch.int64)], (), torch.bool)
    return value


def _find_live(graph: fx.Graph, results: Iterable[fx.Node]) -> list[fx.Node]:
    wanted = set(results) | {node for node in graph.nodes if has_effects(node)}
    for node in reversed(graph.nodes):
        if node in wanted and node.op != "output":
            wanted.update(node.all_input_nodes)
    return [node for node in graph.nodes if node in wanted and node.op != "output"]


def _take(found: Any) -> Value:
    assert isinstance(found, Value)
    return found


def _read_arguments(node: fx.Node, values: Mapping[fx.Node, Any]) -> dict[str, Any]:
    """Arguments by the names of the op's schema, with its defaults."""
    schema = node.target._schema  # type: ignore[union-attr]
    arguments: dict[str, Any] = {}
    for index, entry in enumerate(schema.arguments):
        given = node.args[index] if index < len(node.args) else node.kwargs.get(entry.name, entry.default_value)
        arguments[entry.name] = fx.map_arg(given, lambda inner: values[inner])
    return arguments


def _list_results(node: fx.Node) -> tuple[torch.Tensor, ...]:
    value = node.meta["val"]
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _find_used(node: fx.Node) -> frozenset[int]:
    value = node.meta["val"]
    if not isinstance(value, list | tuple):
        return frozenset({0})
    places: list[Any] = [user.args[1] for user in node.users if user.target is operator.getitem]
    return frozenset(places)


def _list_operands(node: fx.Node, values: Mapping[fx.Node, Any]) -> list[Any]:
    found: list[Any] = []
    fx.map_arg((node.args, node.kwargs), lambda inner: found.append(values[inner]))
    return found


def _trace(decomposition: Decomposition, node: fx.Node, values: Mapping[fx.Node, Any]) -> fx.GraphModule:
    """The decomposition as a graph of functional ops, on the meta device. Its inputs are the node's operands."""
    operands = [torch.empty(value.shape, dtype=value.dtype, device="meta") for value in _list_operands(node, values)]

    def run(*tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        args, kwargs = fx.map_arg((node.args, dict(node.kwargs)), lambda inner: next(given))
        kwargs = {key: value for key, value in kwargs.items() if key not in ("device", "layout", "pin_memory")}
        found = decomposition(*args, **kwargs)
        return tuple(found) if isinstance(found, list | tuple) else found  # of no class of its own

    with torch.no_grad():
        return make_fx(functionalize(run, remove="mutations"), tracing_mode="fake")(*operands)
