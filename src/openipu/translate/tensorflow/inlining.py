"""Functions that a graph calls, written out where they are called.

In: a graph with calls. Out: one without, but for loops and branches, whose functions are written out inside themselves.
A gradient may be made in one function and applied in another: only a flat graph can be cut between them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from openipu.errors import TranslationError
from openipu.translate.foreign import ForeignGraph, ForeignNode, Place

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_DEEPEST = 64


def write_out_calls(graph: ForeignGraph, depth: int = 0) -> ForeignGraph:
    """The graph with each call replaced by the nodes of the function."""
    if depth > _DEEPEST:
        raise TranslationError(f"{graph.name}: functions call each other more than {_DEEPEST} deep. Flatten the model.")
    nodes: list[ForeignNode] = []
    names: dict[str, str] = {}  # results of calls -> the tensors that they are

    def find(name: str) -> str:
        return names.get(name, name)

    for node in graph.nodes:
        inputs = tuple(find(name) for name in node.inputs)
        body = node.attributes.get("f")
        if node.op not in _CALLS or not isinstance(body, ForeignGraph):
            attributes = {key: _write_out_value(value, depth) for key, value in node.attributes.items()}
            nodes.append(dataclasses.replace(node, inputs=inputs, attributes=attributes))
            continue
        body = write_out_calls(body, depth + 1)
        own = dict(zip(body.inputs, inputs, strict=True))
        for inner in body.nodes:
            nodes.append(_move(inner, node, own))
            own.update((name, f"{node.name}/{name}") for name in inner.outputs)
        names.update((name, own[result]) for name, result in zip(node.outputs, body.outputs, strict=True))
    return dataclasses.replace(graph, nodes=tuple(nodes), outputs=tuple(find(name) for name in graph.outputs))


def _write_out_value(value: Any, depth: int) -> Any:
    if isinstance(value, ForeignGraph):
        return write_out_calls(value, depth + 1)
    if isinstance(value, list) and value and isinstance(value[0], ForeignGraph):
        return [write_out_calls(body, depth + 1) for body in value]
    return value


def _move(inner: ForeignNode, call: ForeignNode, names: dict[str, str]) -> ForeignNode:
    """A node of a function where it is called: placed as the call is, unless it says so itself."""
    placed = inner.place if inner.place != Place() else call.place
    return dataclasses.replace(
        inner,
        inputs=tuple(names.get(name, name) for name in inner.inputs),
        outputs=tuple(f"{call.name}/{name}" for name in inner.outputs),
        name=f"{call.name}/{inner.name}",
        scope=inner.scope or call.scope,
        place=placed,
    )
