"""When each part of the update may run: as soon as its gradient exists and nothing later reads the old weight. New
values are written, stored or gathered as soon as nothing reads the old ones, so that few of them live at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from torch import fx

from openipu.graph import Graph, GraphOutput, InputKind, OutputKind
from openipu.plan.lowering.sites import find_last_reader, list_output_nodes, list_readers

OVERWRITES = {
    OutputKind.PARAMETER: InputKind.PARAMETER,
    OutputKind.CARRIED: InputKind.PARAMETER,
    OutputKind.STATE: InputKind.STATE,
    OutputKind.BUFFER: InputKind.BUFFER,
    OutputKind.INPUT: InputKind.INPUT,
}

Output = tuple[object, GraphOutput]  # a node, or what stands for one, and its entry in the signature


class Outstanding:
    """The results of an update that are not yet where they belong."""

    def __init__(self, update: Graph, at_once: Collection[OutputKind]) -> None:
        self._left = dict(enumerate(zip(list_output_nodes(update), update.outputs, strict=True)))
        self._waits: dict[int, int] = {}  # by output: nodes that come before it
        self._behind: dict[fx.Node, list[int]] = {}  # outputs that wait for a node
        placeholders = (node for node in update.module.graph.nodes if node.op == "placeholder")
        old = {(given.kind, given.name): node for node, given in zip(placeholders, update.inputs, strict=True)}
        for number, (node, entry) in self._left.items():
            replaced = old.get((OVERWRITES[entry.kind], entry.name)) if entry.kind in at_once else None
            if replaced is None or not isinstance(node, fx.Node) or node.op != "call_function":
                continue
            before = {node, *(reader for reader in list_readers(replaced) if reader.op == "call_function")}
            self._waits[number] = len(before)
            for earlier in before:
                self._behind.setdefault(earlier, []).append(number)

    def take_ready(self, node: fx.Node) -> Iterator[Output]:
        """What may be written now that a node has run."""
        for number in self._behind.get(node, ()):
            self._waits[number] -= 1
            if not self._waits[number]:
                yield self._left.pop(number)

    def take_rest(self) -> Iterator[Output]:
        """All that is left at the end."""
        yield from self._left.values()
        self._left.clear()


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
