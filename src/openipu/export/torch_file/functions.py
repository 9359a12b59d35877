"""A graph as the body of a Python function.

In: a `Graph`, the expressions that its inputs stand for, the outputs that are wanted. Out: lines, with a comment where
another module or line of the user's begins, and the expressions of the outputs. Loops and branches become Python's.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import fx

from openipu.errors import ExportError
from openipu.export.places import describe_place, title_node
from openipu.export.torch_file.expressions import OWN_OPS, write_call
from openipu.export.torch_file.naming import Identifiers
from openipu.graph import BranchCall, Graph, GraphCall, LoopCall, has_effects

_INDENT = "    "


@dataclass
class FunctionText:
    """What one graph became."""

    lines: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)  # of the wanted outputs
    own_ops: set[str] = field(default_factory=set)  # kernels of ours that the lines call


def write_graph(
    graph: Graph, inputs: Mapping[str, str], identifiers: Identifiers, wanted: Sequence[int] | None = None
) -> FunctionText:
    """`inputs`: placeholder -> expression; `wanted`: positions of the outputs, all of them if None."""
    outputs: Any = graph.module.graph.output_node().args[0]
    chosen = list(outputs) if wanted is None else [outputs[index] for index in wanted]
    return _Writer(graph.module.graph, inputs, identifiers, chosen).write()


class _Writer:
    def __init__(
        self, graph: fx.Graph, inputs: Mapping[str, str], identifiers: Identifiers, results: Sequence[fx.Node]
    ) -> None:
        self._graph = graph
        self._identifiers = identifiers
        self._results = results
        self._names: dict[fx.Node, str] = {
            node: inputs[node.name] for node in graph.find_nodes(op="placeholder") if node.name in inputs
        }
        self._text = FunctionText()

    def write(self) -> FunctionText:
        live = self._find_live()
        last = self._find_last_uses(live)
        title = ""
        dying: list[fx.Node] = []
        for node in live:
            if node.op == "placeholder":
                continue
            if node.op == "get_attr":
                raise ExportError(f"{node.target} is not a tensor of the program, so it cannot be written.")
            found = title_node(node)
            if found != title:
                self._release(dying)
                title, dying = found, []
                self._text.lines.append(f"# {found}" if found else "#")
            self._write_node(node)
            dying += last.get(node, [])
        self._text.results = [self._names[node] for node in self._results]
        return self._text

    def _write_node(self, node: fx.Node) -> None:
        target = node.target
        if target is operator.getitem:
            self._names[node] = write_call(node, self._names)
            return
        if isinstance(target, GraphCall):
            self._write_graph_call(node, target)
            return
        if target in OWN_OPS:
            self._text.own_ops.add(OWN_OPS[target])
        expression = write_call(node, self._names)
        name = getattr(target, "_opname", None) or node.name
        self._names[node] = self._identifiers.claim(name)
        self._text.lines.append(f"{self._names[node]} = {expression}")

    def _release(self, dying: Sequence[fx.Node]) -> None:
        """Memory of what nobody reads again goes back, once a group of nodes is done."""
        names = [self._names[node] for node in dying if node.op == "call_function"]
        names = [name for name in names if name.isidentifier()]
        if names:
            self._text.lines.append(f"del {', '.join(names)}")

    def _write_graph_call(self, node: fx.Node, call: GraphCall) -> None:
        operands = [self._names[operand] for operand in node.args]  # type: ignore[index]
        result = self._identifiers.claim(call.name)
        self._names[node] = result
        if type(call) is LoopCall:
            self._write_loop(call, operands, result)
        elif type(call) is BranchCall:
            self._write_branch(call, operands, result)
        else:
            raise ExportError(
                f"{call.name} is a function of this process{describe_place(node)}, and cannot be written to a file. "
                "Leave it out of the model, or write what it computes with operators of torch."
            )

    def _write_loop(self, call: LoopCall, operands: Sequence[str], result: str) -> None:
        carried = [self._identifiers.claim(f"{result}_{index}") for index in range(call.carried)]
        for name, operand in zip(carried, operands, strict=False):
            self._text.lines.append(f"{name} = {operand}")
        body = self._write_body(call.body, [*carried, *operands[call.carried :]])
        self._text.lines.append(f"for _ in range({call.count}):")
        self._text.lines += _indent(body.lines)
        together = ", ".join(carried)
        self._text.lines.append(f"{_INDENT}{together} = {', '.join(body.results)}" if carried else f"{_INDENT}pass")
        self._text.lines.append(f"{result} = ({together},)" if carried else f"{result} = ()")

    def _write_branch(self, call: BranchCall, operands: Sequence[str], result: str) -> None:
        condition, *values = operands
        first = len(call.chosen.inputs)
        for word, graph, own in (
            (f"if {condition}:", call.chosen, values[:first]),
            ("else:", call.otherwise, values[first:]),
        ):
            body = self._write_body(graph, own)
            self._text.lines.append(word)
            self._text.lines += _indent(body.lines)
            self._text.lines.append(f"{_INDENT}{result} = ({''.join(f'{name}, ' for name in body.results).strip()})")

    def _write_body(self, graph: Graph, operands: Sequence[str]) -> FunctionText:
        names = {entry.node: operand for entry, operand in zip(graph.inputs, operands, strict=True)}
        body = write_graph(graph, names, self._identifiers)
        self._text.own_ops |= body.own_ops
        return body

    def _find_live(self) -> list[fx.Node]:
        wanted = set(self._results) | {node for node in self._graph.nodes if has_effects(node)}
        for node in reversed(self._graph.nodes):
            if node in wanted:
                wanted.update(node.all_input_nodes)
        return [node for node in self._graph.nodes if node in wanted]

    def _find_last_uses(self, live: Sequence[fx.Node]) -> dict[fx.Node, list[fx.Node]]:
        """Which nodes nobody reads after a node. What a `getitem` reads lives as long as its own readers."""
        last: dict[fx.Node, fx.Node] = {}
        for node in live:
            for read in _list_read(node):
                last[read] = node
        for result in self._results:
            for kept in (result, *_list_sources(result)):
                last.pop(kept, None)
        found: dict[fx.Node, list[fx.Node]] = {}
        for node, reader in last.items():
            found.setdefault(reader, []).append(node)
        return found


def _list_read(node: fx.Node) -> Iterator[fx.Node]:
    if node.target is operator.getitem:
        return
    for read in node.all_input_nodes:
        yield read
        yield from _list_sources(read)


def _list_sources(node: fx.Node) -> Iterator[fx.Node]:
    while node.target is operator.getitem:
        node = node.args[0]  # type: ignore[assignment]
        yield node


def _indent(lines: Sequence[str]) -> list[str]:
    return [f"{_INDENT}{line}" for line in lines]
