"""Nodes that are more than one ATen op: loops, branches, exchanges between replicas, and functions beside the graph.

A `GraphCall` is the target of a `call_function` node. It takes tensors, returns a tuple of new tensors, and can be
called: that is what a reader of the graph gets. `run` replaces loops and branches with generated functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import torch
from torch import fx

from openipu.graph.meeting import Exchange, meet
from openipu.graph.program import Graph

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True, eq=False)
class GraphCall:
    """What all of them have: a name, under which costs and reports list them."""

    name: str

    @property
    def __name__(self) -> str:  # fx names nodes after their targets
        return self.name

    def __str__(self) -> str:
        return f"openipu.{self.name}"

    @property
    def bodies(self) -> tuple[Graph, ...]:
        """Graphs that the call runs."""
        return ()

    @property
    def details(self) -> str:
        """What tells two calls with the same name and bodies apart."""
        return ""

    @property
    def random(self) -> bool:
        """Does it draw random numbers?"""
        return any(_draws(node) for body in self.bodies for node in body.module.graph.nodes)

    @property
    def effects(self) -> bool:
        """Does it do more than return values, so that it must run even where nobody reads them?"""
        return any(has_effects(node) for body in self.bodies for node in body.module.graph.nodes)

    @property
    def meets(self) -> bool:
        """Do replicas exchange values inside it, so that they have to run in step?"""
        return any(meets_replicas(node) for body in self.bodies for node in body.module.graph.nodes)

    def __call__(self, *tensors: torch.Tensor) -> Tensors:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class LoopCall(GraphCall):
    """Runs `body` `count` times. The first `carried` tensors are replaced in each pass; the others stay the same."""

    body: Graph
    count: int
    carried: int

    @property
    def bodies(self) -> tuple[Graph, ...]:
        return (self.body,)

    @property
    def details(self) -> str:
        return f"{self.count} times"

    def __call__(self, *tensors: torch.Tensor) -> Tensors:
        values, fixed = tensors[: self.carried], tensors[self.carried :]
        for _ in range(self.count):
            values = tuple(self.body.module(*values, *fixed))
        return tuple(value.clone() for value in values)


@dataclass(frozen=True, eq=False)
class BranchCall(GraphCall):
    """Runs one of two graphs. Tensors: the condition, those of `chosen`, those of `otherwise`."""

    chosen: Graph
    otherwise: Graph

    @property
    def bodies(self) -> tuple[Graph, ...]:
        return (self.chosen, self.otherwise)

    def __call__(self, *tensors: torch.Tensor) -> Tensors:
        condition, *values = tensors
        first = len(self.chosen.inputs)
        results = self.chosen.module(*values[:first]) if condition else self.otherwise.module(*values[first:])
        return tuple(value.clone() for value in results)


@dataclass(frozen=True, eq=False)
class FunctionCall(GraphCall):
    """Runs a Python function on the values of a run. It must return new tensors, of the shapes that capture was told.

    `draws` says that it takes numbers from the random stream, `acts` that it has effects besides its results, `joins`
    that replicas meet in it.
    """

    function: Callable[..., Sequence[torch.Tensor]]
    attributes: Mapping[str, Any] = field(default_factory=dict)  # for readers of the graph
    draws: bool = False
    acts: bool = False
    joins: bool = False

    @property
    def details(self) -> str:
        return repr(sorted(self.attributes.items()))

    @property
    def meets(self) -> bool:
        return self.joins

    @property
    def random(self) -> bool:
        return self.draws

    @property
    def effects(self) -> bool:
        return self.acts

    def __call__(self, *tensors: torch.Tensor) -> Tensors:
        return tuple(self.function(*tensors))


class Collective(StrEnum):
    """What replicas do with each other's values; it decides what crosses the links."""

    ALL_REDUCE = "all_reduce"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_GATHER = "all_gather"
    ALL_TO_ALL = "all_to_all"
    INDEX = "replica_index"  # nothing crosses: each knows its number


@dataclass(frozen=True, eq=False)
class CollectiveCall(GraphCall):
    """Replicas exchange values: each gives its tensors, and gets its own of the results."""

    kind: Collective
    exchange: Exchange
    group: int = 0  # replicas that belong together, one after the other; 0: all of them

    @property
    def details(self) -> str:
        return f"{self.kind} in groups of {self.group}"

    @property
    def meets(self) -> bool:
        return True

    def __call__(self, *tensors: torch.Tensor) -> Tensors:
        return tuple(meet(self, self.exchange, tensors))


def meets_replicas(node: fx.Node) -> bool:
    """Do replicas exchange values in this node?"""
    return isinstance(node.target, GraphCall) and node.target.meets


def has_effects(node: fx.Node) -> bool:
    """Must the node run even where nobody reads its results?"""
    return isinstance(node.target, GraphCall) and node.target.effects


def _draws(node: fx.Node) -> bool:
    if isinstance(node.target, GraphCall):
        return node.target.random
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags
