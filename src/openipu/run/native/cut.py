"""A graph in parts, of which equal ones are compiled once.

In: the graph of a step. Out: a `Cut`: graphs of the parts, each as often as it differs from the others, and the order
in which they are called on numbered values. Equal layers are found by what their operators look like. Updates are moved
to where their gradients are computed, so that they belong to a layer, too. What is cheap is computed in every part that
reads it: views, wider formats, masks that depend on a seed alone. All else crosses from part to part in memory.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from openipu.graph.serial.values import encode_value
from openipu.run.drafts.aliasing import find_viewed, is_pointwise, is_pure
from openipu.run.drafts.draft import list_results
from openipu.run.native.graph_text import write_graph
from openipu.run.native.repeats import Repeat, find_repeats
from openipu.run.native.schedule import PartCall, Schedule

aten = torch.ops.aten

# What a part of its own takes beside its nodes, to read headers, compile a wrapper and link, in nodes' time: 10 s where
# a node takes 0.0125 s.
PART_NODES = 800
_LEAST_SAVED_NODES = 100
_MOST_REPEATS = 8  # that are weighed
_FRONT = -1  # the place before all others
_SMALL_ELEMENTS = 4096  # seeds, hyper-parameters, and what is computed of them


@dataclass(frozen=True, eq=False)
class Cut:
    """What is compiled, and how it is called."""

    parts: list[dict[str, Any]]  # `graph` and `placeholders`, as a unit has them
    schedule: Schedule


def cut_graph(graph: fx.Graph, placeholders: Sequence[Sequence[Any]], part_nodes: int = PART_NODES) -> Cut | None:
    """The parts of a graph that ends by writing to placeholders; None where it is sooner compiled as it is."""
    try:
        set_values(graph, placeholders)
    except NotImplementedError:
        return None  # an operator that tells no shape without data: Inductor has ways of its own
    if any(_reads_strides(node) for node in graph.find_nodes(op="call_function", target=aten.as_strided.default)):
        return None  # parts hand over contiguous values
    order = order_updates(graph)
    cheap = _find_cheap(graph, order)
    held = [node for node in order if node not in cheap]
    repeats = find_repeats(_number_nodes(held), min(_LEAST_SAVED_NODES, part_nodes))
    repeats = sorted(repeats, key=lambda repeat: repeat.saved, reverse=True)[:_MOST_REPEATS]
    best, least = None, len(graph.nodes) + part_nodes
    for count in range(1, len(repeats) + 1):
        found = _Cutter(graph, held, _choose_borders(held, repeats[:count])).cut()
        cost = sum(len(part["graph"]) + part_nodes for part in found.parts)
        if cost < least:
            best, least = found, cost
    return best


def set_values(graph: fx.Graph, placeholders: Sequence[Sequence[Any]]) -> None:
    """Give every node a meta tensor with its shape and number format, all that are placeholders contiguous."""
    described = iter(placeholders)
    for node in graph.nodes:
        if node.op == "placeholder":
            shape, name = next(described)
            node.meta["val"] = torch.empty(shape, dtype=getattr(torch, name), device="meta")
        elif node.op == "call_function":
            args, kwargs = fx.map_arg((node.args, node.kwargs), lambda source: source.meta["val"])
            if "device" in kwargs:
                kwargs = {**kwargs, "device": "meta"}
            # What is written is not read again.
            node.meta["val"] = args[0] if node.target is aten.copy_.default else node.target(*args, **kwargs)


def _reads_strides(node: fx.Node) -> bool:
    source = node.args[0]
    return not isinstance(source, fx.Node) or not source.meta["val"].is_contiguous()


def order_updates(graph: fx.Graph) -> list[fx.Node]:
    """The calls of a graph in an order in which gradients are used up at once.

    What is computed element by element, to be written and nothing else, comes as soon as its operands are there; where
    these are there from the beginning, as late as it may. Single numbers, which many updates share, stay in front.
    """
    calls = [node for node in graph.nodes if node.op == "call_function"]
    moved: set[fx.Node] = set()
    for node in reversed(calls):
        only_written = bool(node.users) and moved.issuperset(node.users)
        if node.target is aten.copy_.default or (only_written and (is_pointwise(node) or _passes_on(node))):
            moved.add(node)
    place = dict.fromkeys(graph.find_nodes(op="placeholder"), _FRONT)
    for index, node in enumerate(calls):
        sources = set(node.all_input_nodes)
        if node.target is aten.copy_.default:
            sources |= _list_readers(_get_written(node)) - {node}
            if not place.keys() >= sources:
                return calls  # something reads what was written: all stays as it is
        place[node] = max((place[source] for source in sources), default=_FRONT) if node in moved else index
    for node in reversed(calls):
        if node in moved and place[node] == _FRONT and node.users and node.meta["val"].dim() > 0:
            place[node] = min(place[user] for user in node.users)
    # Those at one place keep their order, which has operands in front.
    return sorted(calls, key=place.__getitem__)


def _get_written(node: fx.Node) -> fx.Node:
    target = node.args[0]
    assert isinstance(target, fx.Node)
    return target


def _list_readers(source: fx.Node) -> set[fx.Node]:
    """What reads a value, also by way of what is computed again where it is read."""
    found: set[fx.Node] = set()
    opened = [source]
    while opened:
        for user in opened.pop().users:
            if user not in found and user.op == "call_function":
                found.add(user)
                if _passes_on(user) or user.target is operator.getitem:
                    opened.append(user)
    return found


def _is_view(node: fx.Node) -> bool:
    return node.target is not aten.copy_.default and find_viewed(node) is not None


def _passes_on(node: fx.Node) -> bool:
    """Whether a value is its first operand in another shape or in a wider format."""
    if _is_view(node):
        return True
    source = node.args[0] if node.args else None
    if node.target is not aten._to_copy.default or not isinstance(source, fx.Node) or set(node.kwargs) != {"dtype"}:
        return False
    return bool(source.meta["val"].dtype.itemsize <= node.meta["val"].dtype.itemsize)


def _number_nodes(nodes: Iterable[fx.Node]) -> list[int]:
    """A number for each node, equal for nodes that look the same: operator, arguments, shapes, but no names."""
    numbers: dict[str, int] = {}
    found = []
    for node in nodes:
        kinds = {source: "%placeholder" if source.op == "placeholder" else "%" for source in node.all_input_nodes}
        values = [node.meta["val"], *(source.meta["val"] for source in node.all_input_nodes)]
        arguments = encode_value([list(node.args), dict(node.kwargs)], kinds)
        text = json.dumps([str(node.target), arguments, [_describe(value) for value in values]])
        found.append(numbers.setdefault(text, len(numbers)))
    return found


def _describe(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_describe(item) for item in value]
    return [list(value.shape), str(value.dtype)] if isinstance(value, torch.Tensor) else repr(value)


def _choose_borders(order: Sequence[fx.Node], repeats: Iterable[Repeat]) -> list[int]:
    """Where parts begin: for each repeat, at that place in its period which fewest bytes cross."""
    index = {node: position for position, node in enumerate(order)}
    borders = {0}
    for repeat in repeats:
        starts = range(repeat.start, repeat.start + repeat.slack + 1)
        start = min(starts, key=lambda place: _count_crossing(order, index, place, repeat.period))
        borders |= {start + number * repeat.period for number in range(repeat.count + 1)}
    return sorted(border for border in borders if border < len(order))


def _count_crossing(order: Sequence[fx.Node], index: dict[fx.Node, int], place: int, period: int) -> int:
    """Bytes that the period before a place hands to the one after it; what is kept for longer counts nowhere."""
    total = 0
    for node in order[max(place - period, 0) : place]:
        value = node.meta["val"]
        if isinstance(value, torch.Tensor) and not _passes_on(node):
            later = (index.get(user, -1) for user in _list_readers(node))
            if any(place <= position < place + period for position in later):
                total += value.nbytes
    return total


def _find_cheap(graph: fx.Graph, order: Sequence[fx.Node]) -> set[fx.Node]:
    """What each part that reads it computes: views, wider formats, and what is computed element by element of nothing,
    or of a few numbers that nobody writes to. Results are computed once."""
    written = {_get_written(node) for node in order if node.target is aten.copy_.default}
    placeholders = graph.find_nodes(op="placeholder")
    little = {node for node in placeholders if node.meta["val"].numel() <= _SMALL_ELEMENTS} - written
    for node in order:
        made = is_pure(node) and not node.all_input_nodes
        element_wise = is_pointwise(node) or _is_view(node)
        if made or (element_wise and little.issuperset(node.all_input_nodes)):
            little.add(node)
    passed = {node for node in order if _passes_on(node)}
    return (little | passed) - set(placeholders) - set(list_results(graph))


def _describe_part(sources: Sequence[fx.Node], body: Sequence[fx.Node], returned: Sequence[fx.Node]) -> dict[str, Any]:
    """A part as text, without the names of what it reads."""
    graph = fx.Graph()
    copies = {source: graph.placeholder(f"p{index}") for index, source in enumerate(sources)}
    for node in body:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[node] for node in returned))
    values = [source.meta["val"] for source in sources]
    return {
        "graph": write_graph(graph),
        "placeholders": [[list(value.shape), str(value.dtype).removeprefix("torch.")] for value in values],
    }


class _Cutter:
    """Takes a graph apart at some borders."""

    def __init__(self, graph: fx.Graph, order: Sequence[fx.Node], borders: Sequence[int]) -> None:
        self._results = list_results(graph)
        self._placeholders = list(graph.find_nodes(op="placeholder"))
        self._groups: list[list[fx.Node]] = []
        self._home: dict[fx.Node, int] = {}  # which part has a value; cheap ones are wherever they are read
        ends = [*borders[1:], len(order)]
        for number, (start, end) in enumerate(zip(borders, ends, strict=True)):
            self._groups.append([])
            for node in order[start:end]:
                # An item of several results lies where they do.
                own = node.target is not operator.getitem or _is_view(node)
                home = number if own else self._home[node.all_input_nodes[0]]
                self._home[node] = home
                self._groups[home].append(node)

    def cut(self) -> Cut:
        bodies = [self._list_body(number, nodes) for number, nodes in enumerate(self._groups)]
        crossing = {source for body in bodies for source in self._list_sources(body)} | set(self._results)
        slots = {node: index for index, node in enumerate(self._placeholders)}
        parts: dict[str, int] = {}
        described: list[dict[str, Any]] = []
        calls: list[PartCall] = []
        for number, body in enumerate(bodies):
            if not body:
                continue
            sources = self._list_sources(body)
            returned = [node for node in body if node in crossing and self._home.get(node) == number]
            part = _describe_part(sources, body, returned)
            text = json.dumps(part)
            if text not in parts:
                parts[text] = len(described)
                described.append(part)
            for node in returned:
                slots[node] = len(slots)
            calls.append(PartCall(parts[text], [slots[node] for node in sources], [slots[node] for node in returned]))
        return Cut(described, Schedule.plan(calls, len(self._placeholders), [slots[node] for node in self._results]))

    def _list_body(self, number: int, nodes: Sequence[fx.Node]) -> list[fx.Node]:
        """What a part computes, operands first: its own nodes, and the cheap ones that these read."""
        body: dict[fx.Node, None] = {}

        def add(node: fx.Node) -> None:
            if node not in body and node.op != "placeholder" and self._home.get(node, number) == number:
                for source in node.all_input_nodes:
                    add(source)
                body[node] = None

        for node in nodes:
            add(node)
        return list(body)

    def _list_sources(self, body: Sequence[fx.Node]) -> list[fx.Node]:
        """What a part reads of others, in the order in which it does."""
        own = set(body)
        found: dict[fx.Node, None] = {}
        for node in body:
            found |= dict.fromkeys(source for source in node.all_input_nodes if source not in own)
        return list(found)
