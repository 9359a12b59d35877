"""A draft's graph as JSON, for the process that compiles it.

In: an FX graph of ATen operators that may end by writing to placeholders. Out: plain lists and texts; and the graph
again. Nodes are numbers, so that equal graphs give equal texts whatever else a process did before.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from openipu.graph.serial.operators import find_operator, name_operator
from openipu.graph.serial.values import decode_value, encode_value

_PLACEHOLDER, _OUTPUT, _ITEM, _WRITE = "placeholder", "output", "item", "write"
_OTHERS: dict[str, Any] = {_ITEM: operator.getitem, _WRITE: torch.ops.aten.copy_.default}
_NAMES = {target: name for name, target in _OTHERS.items()}


def write_graph(graph: fx.Graph) -> list[Any]:
    """One row for each node: what it calls, its arguments and its keyword arguments."""
    references: dict[fx.Node, str] = {}
    rows: list[Any] = []
    for node in graph.nodes:
        references[node] = f"%{len(references)}"
        args = [encode_value(value, references) for value in node.args]
        if node.op == "placeholder":
            rows.append([_PLACEHOLDER, [], {}])
        elif node.op == "output":
            rows.append([_OUTPUT, args, {}])
        else:
            kwargs = {key: encode_value(value, references) for key, value in node.kwargs.items()}
            rows.append([_NAMES.get(node.target) or name_operator(node.target), args, kwargs])
    return rows


def read_graph(rows: list[Any]) -> fx.Graph:
    """The graph of `write_graph`'s rows."""
    graph = fx.Graph()
    nodes: list[fx.Node] = []
    for kind, given, named in rows:
        args = tuple(decode_value(value, nodes) for value in given)
        if kind == _PLACEHOLDER:
            nodes.append(graph.placeholder(f"p{len(nodes)}"))
        elif kind == _OUTPUT:
            nodes.append(graph.output(args[0]))
        else:
            kwargs = {key: decode_value(value, nodes) for key, value in named.items()}
            nodes.append(graph.call_function(_OTHERS.get(kind) or find_operator(kind), args, kwargs))
    return graph
