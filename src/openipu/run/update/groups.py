"""Parameters whose captured updates are the same graph, found without copying or changing that graph.

In: the update graph of a program and its state slots. Out: groups of parameters. Inside a group, one update becomes
another by exchanging the parameter's own weight, gradient and state for the other's: so the rule of its first
parameter is the rule of all. Groups may be finer than need be, never coarser.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import fx

from openipu.graph import Graph, GraphInput, InputKind, OutputKind, StateSlot
from openipu.run.drafts.aliasing import is_pointwise
from openipu.run.drafts.draft import list_results
from openipu.run.update.stacked_scalars import ScalarVectors

PARAMETER_ROLE = "parameter"
GRADIENT_ROLE = "gradient"

_ROLES = {InputKind.PARAMETER: PARAMETER_ROLE, InputKind.GRADIENT: GRADIENT_ROLE}


def group_alike(update: Graph, slots: Sequence[StateSlot]) -> list[tuple[str, ...]]:
    """All updated parameters, those with the same update together, both in the order of the graph's outputs."""
    reader = _Reader(update, slots)
    groups: dict[Hashable, list[str]] = {}
    for entry in update.outputs:
        if entry.kind is OutputKind.PARAMETER:
            groups.setdefault(reader.describe(entry.name, entry.shape), []).append(entry.name)
    return [tuple(names) for names in groups.values()]


class _Reader:
    """Describes updates as nested tuples, each of which is interned as a number: equal updates get equal numbers."""

    def __init__(self, update: Graph, slots: Sequence[StateSlot]) -> None:
        nodes = update.module.graph.find_nodes(op="placeholder")
        self._entries: dict[fx.Node, GraphInput] = dict(zip(nodes, update.inputs, strict=True))
        self._slots = {slot.key: slot for slot in slots}
        self._slots_of: dict[str, list[StateSlot]] = {}
        for slot in slots:
            self._slots_of.setdefault(slot.parameter, []).append(slot)
        self._results: dict[str, list[tuple[str, fx.Node]]] = {}
        for node, entry in zip(list_results(update.module.graph), update.outputs, strict=True):
            owner, role = entry.name, PARAMETER_ROLE
            if entry.kind is OutputKind.STATE:
                owner, role = self._slots[entry.name].parameter, self._slots[entry.name].name
            self._results.setdefault(owner, []).append((role, node))
        self._vectors = ScalarVectors()
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[tuple[fx.Node, int], int] = {}  # of the parameter in turn
        self._parameter = ""
        self._shape: tuple[int, ...] = ()

    def describe(self, parameter: str, shape: tuple[int, ...]) -> Hashable:
        """The same key for parameters with the same update."""
        self._known, self._parameter, self._shape = {}, parameter, shape
        slots = tuple((slot.name, self._describe_shape(slot.shape)) for slot in self._slots_of.get(parameter, ()))
        results = tuple((role, self._number(node)) for role, node in self._results[parameter])
        return slots, results, shape == ()

    def _number(self, node: fx.Node, lane: int = -1) -> int:
        """The number of a node, or of one element (`lane`) of a node that is a vector of scalars."""
        if (node, lane) not in self._known:
            found = self._describe_node(node, lane)
            self._known[node, lane] = self._numbers.setdefault(found, len(self._numbers))
        return self._known[node, lane]

    def _describe_node(self, node: fx.Node, lane: int) -> Hashable:
        entry = self._entries.get(node)
        if entry is not None:
            return self._describe_leaf(node, entry)
        if node.target is operator.getitem:
            vector = self._vectors.find_vector(node)
            if vector is not None:
                return self._number(vector, int(node.args[1]))  # type: ignore[arg-type]
        elif lane >= 0 and node.target is torch.ops.aten.stack.default:
            stacked: Any = node.args[0]
            return self._number(stacked[lane])
        elif is_pointwise(node):
            value = node.meta["val"]
            if isinstance(value, torch.Tensor):
                arguments = self._describe_argument((node.args, node.kwargs), lane)
                shape = () if lane >= 0 else tuple(value.shape)
                return node.target, arguments, value.dtype, self._describe_shape(shape)
        # A reduction, or anything else that is not an element-wise rule: equal to itself alone.
        return node.name

    def _describe_leaf(self, node: fx.Node, entry: GraphInput) -> Hashable:
        owner, role = entry.name, _ROLES.get(entry.kind)
        if entry.kind is InputKind.STATE:
            slot = self._slots[entry.name]
            owner, role = slot.parameter, slot.name
        if role is None or owner != self._parameter:
            return node.name
        return entry.kind, role, entry.dtype, self._describe_shape(entry.shape)

    def _describe_shape(self, shape: tuple[int, ...]) -> Hashable:
        return "own" if shape == self._shape else shape

    def _describe_argument(self, value: Any, lane: int) -> Hashable:
        if isinstance(value, fx.Node):
            # Scalars beside a vector are the same for all its elements.
            scalar = isinstance(value.meta.get("val"), torch.Tensor) and value.meta["val"].dim() == 0
            return "node", self._number(value, -1 if scalar else lane)
        if isinstance(value, list | tuple):
            return tuple(self._describe_argument(item, lane) for item in value)
        if isinstance(value, dict):
            return tuple((key, self._describe_argument(item, lane)) for key, item in value.items())
        return type(value), repr(value)
