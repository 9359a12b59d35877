"""A captured graph on its way to an executable.

In: a `Graph` of a program and the program's constants. Out: a `Draft`, a private copy that passes may change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from openipu.errors import InternalError
from openipu.graph import WRITES_PARAMETER, Graph, GraphInput, GraphOutput, InputKind, OutputKind
from openipu.run.drafts.replacement import replace_value


@dataclass(eq=False)
class Draft:
    """A graph on its way to an executable: `outputs` says what each returned value is."""

    graph: fx.Graph
    inputs: tuple[GraphInput, ...]
    outputs: tuple[GraphOutput, ...]
    bound: dict[str, Any] = field(default_factory=dict)  # placeholder name -> a value that never changes

    @property
    def output_node(self) -> fx.Node:
        node: fx.Node = self.graph.output_node()
        return node

    @property
    def results(self) -> list[fx.Node]:
        """The returned nodes, in the order of `outputs`."""
        return list_results(self.graph)

    def replace_results(self, nodes: Sequence[fx.Node], outputs: Sequence[GraphOutput]) -> None:
        self.output_node.args = (tuple(nodes),)
        self.outputs = tuple(outputs)

    def list_held(self, *kinds: InputKind) -> dict[str, GraphInput]:
        """Inputs of these kinds, weights or buffers, that a run only reads, by placeholder."""
        writes = {*WRITES_PARAMETER, OutputKind.BUFFER}
        written = {entry.name for entry in self.outputs if entry.kind in writes}
        return {entry.node: entry for entry in self.inputs if entry.kind in kinds and entry.name not in written}

    def drop_unread_weights(self) -> None:
        """Take out weights and buffers that nothing reads."""
        kinds = (InputKind.PARAMETER, InputKind.BUFFER)
        unread = {node.name: node for node in self.graph.find_nodes(op="placeholder") if not node.users}
        dropped = {entry.node for entry in self.inputs if entry.kind in kinds and entry.node in unread}
        self.inputs = tuple(entry for entry in self.inputs if entry.node not in dropped)
        for name in dropped:
            self.graph.erase_node(unread[name])

    def placeholder(self, name: str) -> fx.Node:
        """The placeholder of this name."""
        found: fx.Node = next(node for node in self.graph.find_nodes(op="placeholder") if node.name == name)
        return found

    def add_placeholder(self, name: str, value: Any) -> fx.Node:
        """A new placeholder that is bound to a value."""
        first = next(iter(self.graph.nodes))
        with self.graph.inserting_before(first):
            node = self.graph.placeholder(name)
        self.bound[node.name] = value
        return node


def draft_graph(
    graph: Graph, constants: Mapping[str, torch.Tensor], wanted: Sequence[GraphOutput] | None = None
) -> Draft:
    """A private copy of a captured graph, with its constants bound: all of it, or what `wanted` of its outputs need."""
    captured = graph.module.graph
    if wanted is None:
        copy = fx.Graph()
        copied: dict[fx.Node, fx.Node] = {}
        returned: Any = copy.graph_copy(captured, copied)
    else:
        nodes = dict(zip(graph.outputs, list_results(captured), strict=True))
        copy, copied = copy_ancestors(captured, [nodes[entry] for entry in wanted])
        returned = tuple(copied[nodes[entry]] for entry in wanted)
    copy.output(returned)
    renamed = {original.name: node.name for original, node in copied.items() if original.op == "placeholder"}
    inputs = tuple(
        GraphInput(renamed[entry.node], entry.kind, entry.name, entry.shape, entry.dtype, entry.index)
        for entry in graph.inputs
        if entry.node in renamed
    )
    draft = Draft(copy, inputs, graph.outputs if wanted is None else tuple(wanted))
    for entry in inputs:
        if entry.kind is InputKind.CONSTANT:
            draft.bound[entry.node] = constants[entry.name]
    _bind_attributes(draft, graph.module)
    return draft


def list_results(graph: fx.Graph) -> list[fx.Node]:
    """The nodes that a captured graph returns."""
    (returned,) = graph.output_node().args
    if not isinstance(returned, list | tuple) or not all(isinstance(node, fx.Node) for node in returned):
        raise InternalError("A captured graph returns something other than a flat list of nodes. Please report it.")
    return list(returned)


def copy_ancestors(graph: fx.Graph, wanted: Iterable[fx.Node]) -> tuple[fx.Graph, dict[fx.Node, fx.Node]]:
    """A graph of these nodes and what they are computed from, without an output, and the copy of each node."""
    needed: set[fx.Node] = set()
    open_nodes = list(wanted)
    while open_nodes:
        node = open_nodes.pop()
        if node not in needed:
            needed.add(node)
            open_nodes.extend(node.all_input_nodes)
    copy = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in graph.nodes:
        if node in needed:
            copies[node] = copy.node_copy(node, copies.__getitem__)
    return copy, copies


def _bind_attributes(draft: Draft, module: fx.GraphModule) -> None:
    for node in list(draft.graph.find_nodes(op="get_attr")):
        value: Any = module
        for part in str(node.target).split("."):
            value = getattr(value, part)
        placeholder = draft.add_placeholder(f"attribute_{node.name}", value)
        placeholder.meta = dict(node.meta)
        replace_value(draft.graph, node, placeholder)
