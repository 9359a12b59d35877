"""A captured graph on its way to an executable.

In: a `Graph` of a program and the program's constants. Out: a `Draft`, a private copy that passes may change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from openipu.errors import InternalError
from openipu.graph import Graph, GraphInput, GraphOutput, InputKind


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
        (returned,) = self.output_node.args
        if not isinstance(returned, list | tuple) or not all(isinstance(node, fx.Node) for node in returned):
            raise InternalError("A captured graph returns something other than a flat list of nodes. Please report it.")
        return list(returned)

    def replace_results(self, nodes: Sequence[fx.Node], outputs: Sequence[GraphOutput]) -> None:
        self.output_node.args = (tuple(nodes),)
        self.outputs = tuple(outputs)

    def placeholder(self, name: str) -> fx.Node:
        """The placeholder of this name."""
        found: fx.Node = next(node for node in self.graph.nodes if node.op == "placeholder" and node.name == name)
        return found

    def add_placeholder(self, name: str, value: Any) -> fx.Node:
        """A new placeholder that is bound to a value."""
        first = next(iter(self.graph.nodes))
        with self.graph.inserting_before(first):
            node = self.graph.placeholder(name)
        self.bound[node.name] = value
        return node


def draft_graph(graph: Graph, constants: Mapping[str, torch.Tensor]) -> Draft:
    """A private copy of a captured graph, with its constants bound."""
    copy = fx.Graph()
    copied: dict[fx.Node, fx.Node] = {}
    returned = copy.graph_copy(graph.module.graph, copied)
    copy.output(returned)
    renamed = {original.name: node.name for original, node in copied.items()}
    inputs = tuple(
        GraphInput(renamed[entry.node], entry.kind, entry.name, entry.shape, entry.dtype, entry.index)
        for entry in graph.inputs
    )
    draft = Draft(copy, inputs, graph.outputs)
    for entry in inputs:
        if entry.kind is InputKind.CONSTANT:
            draft.bound[entry.node] = constants[entry.name]
    _bind_attributes(draft, graph.module)
    return draft


def _bind_attributes(draft: Draft, module: fx.GraphModule) -> None:
    for node in list(draft.graph.find_nodes(op="get_attr")):
        value: Any = module
        for part in str(node.target).split("."):
            value = getattr(value, part)
        placeholder = draft.add_placeholder(f"attribute_{node.name}", value)
        placeholder.meta = dict(node.meta)
        node.replace_all_uses_with(placeholder)
        draft.graph.erase_node(node)
