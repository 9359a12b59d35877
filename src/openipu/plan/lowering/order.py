"""When each part of the update may run: as soon as its gradient exists and nothing later reads the old weight."""

from __future__ import annotations

from collections.abc import Mapping

from torch import fx

from openipu.graph import Graph, InputKind
from openipu.plan.lowering.sites import find_last_reader


def order_update(
    micro: Graph, update: Graph, gradient_nodes: Mapping[str, fx.Node]
) -> tuple[dict[int, list[str]], list[tuple[int, fx.Node]]]:
    """Where each gradient appears in `micro`, and the update's nodes with the position from which each may run."""
    position = {node: index for index, node in enumerate(micro.module.graph.nodes)}
    ready = {name: position[node] for name, node in gradient_nodes.items()}
    produced: dict[int, list[str]] = {}
    for name, place in ready.items():
        produced.setdefault(place, []).append(name)
    last_read: dict[str, int] = {}
    placeholders = [node for node in micro.module.graph.nodes if node.op == "placeholder"]
    for node, given in zip(placeholders, micro.inputs, strict=True):
        if given.kind is InputKind.PARAMETER:
            last_read[given.name] = find_last_reader(node, position)
    earliest: dict[fx.Node, int] = {}
    placeholders = [node for node in update.module.graph.nodes if node.op == "placeholder"]
    for node, given in zip(placeholders, update.inputs, strict=True):
        if given.kind is InputKind.GRADIENT:
            earliest[node] = max(ready.get(given.name, -1), last_read.get(given.name, -1))
        else:
            earliest[node] = -1
    nodes = [node for node in update.module.graph.nodes if node.op == "call_function"]
    for node in nodes:
        earliest[node] = max((earliest[parent] for parent in node.all_input_nodes), default=-1)
    for node in reversed(nodes):  # what needs no gradient waits for what uses it: nothing is kept alive early
        users = [earliest[user] for user in node.users if user.op != "output"]
        earliest[node] = max(earliest[node], min(users, default=earliest[node]))
    order = [(earliest[node], node) for node in nodes]
    order.sort(key=lambda entry: entry[0])  # stable: an op never comes before its operands
    return produced, order
