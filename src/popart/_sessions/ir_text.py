"""A session's graphs as JSON: `_serializeIr`.

In: the graphs of a model. Out: {name of graph: [ops]}, each op with its type, inputs, outputs and attributes. These are
the nodes of the model: what PopART's own passes would make of them is not there, since they do not run here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from openipu.translate import ForeignGraph, ForeignNode


def serialise(graph: ForeignGraph) -> str:
    """All graphs of a model."""
    named = {_name(one): [_describe(node) for node in one.nodes] for one in _list_graphs(graph)}
    return json.dumps(named)


def _name(graph: ForeignGraph) -> str:
    """What the user called it. The outermost graph has a name in any case."""
    return "maingraph" if graph.name.startswith("BuilderGraph_") else graph.name


def _list_graphs(graph: ForeignGraph) -> Iterator[ForeignGraph]:
    yield graph
    for node in graph.nodes:
        for value in node.attributes.values():
            if isinstance(value, ForeignGraph):
                yield from _list_graphs(value)


def _describe(node: ForeignNode) -> dict[str, Any]:
    return {
        "type": node.op,
        "domain": node.domain or "ai.onnx",
        "version": node.version,
        "name": node.name,
        "inputs": [{"name": name, "index": index} for index, name in enumerate(node.inputs)],
        "outputs": [{"name": name, "index": index} for index, name in enumerate(node.outputs)],
        "attributes": {key: _show(value) for key, value in node.attributes.items()},
    }


def _show(value: Any) -> str:
    if isinstance(value, ForeignGraph):
        return value.name
    return str(list(value.shape)) if hasattr(value, "shape") else str(value)
