"""Automatic loss scaling: a loss scale that follows the half gradients.

In: a draft of one micro-batch; then, for each micro-batch, how many of its half gradients are small. Out: after each
weight update, a factor on the optimizer's own loss scale. Gradients of all micro-batches and replicas of an update are
counted. If more than a small share of them come near the largest half number, the factor is halved, else doubled.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import fx

from openipu.errors import OptionError
from openipu.graph import (
    GradientTracking,
    GraphOutput,
    InputKind,
    LossScaleControl,
    OutputKind,
    Phase,
    Program,
    note_of,
)
from openipu.numerics import FLOAT16
from openipu.ops import Trait, has_trait
from openipu.run.drafts.aliasing import find_viewed
from openipu.run.drafts.draft import Draft, list_results
from openipu.run.drafts.random_numbers import set_value
from openipu.run.instances import InstanceGroup

aten = torch.ops.aten

LOSS_SCALING = "loss_scaling"  # the key of the hyper-parameter
STATISTIC = "small gradients"

_LARGEST_FACTOR = 2.0**100  # the scale itself is a float32 number, and so is one part in it


class LossScale:
    """The factor, and the counts of the current update."""

    def __init__(self, program: Program, control: LossScaleControl) -> None:
        tracked = _list_tracked(program, control)
        if not tracked:
            raise OptionError(
                f"Automatic loss scaling looks at half gradients, and {program.name} has none. Convert the model, or a "
                "part of it, with .half(), or disable automatic loss scaling."
            )
        self.factor = 1.0
        self.used: list[float] = []  # the loss scale of each update of the last call
        self._control = control
        self._elements = sum(node.meta["val"].numel() for node in tracked)
        self._base = 1.0
        self._updates = 0
        self._large = self._small = 0

    def scale(self, values: Mapping[str, float]) -> dict[str, float]:
        """The optimizer's values, with the factor on its loss scale."""
        self._base = values[LOSS_SCALING]
        return {**values, LOSS_SCALING: self._base * self.factor}

    @property
    def value(self) -> float:
        """The loss scale of the next update."""
        return self._base * self.factor

    @property
    def position(self) -> tuple[float, int]:
        """The factor, and how many updates of the current period are done: to store."""
        return self.factor, self._updates

    def restore(self, factor: float, updates: int) -> None:
        """Go on from a position that was stored."""
        self.factor = min(max(float(factor), 1 / _LARGEST_FACTOR), _LARGEST_FACTOR)
        self._updates = int(updates) % self._control.update_period
        self._large = self._small = 0

    def follow(self, other: LossScale) -> None:
        """Stand where another one stands, between two calls."""
        self.factor, self._base, self._updates = other.factor, other._base, other._updates
        self._large = self._small = 0
        self.used = list(other.used)

    def begin(self) -> None:
        """Before the first micro-batch of a call."""
        self.used = []

    def add(self, small: torch.Tensor) -> None:
        """Count the gradients of one micro-batch. Those of the first update of each period decide."""
        if self._updates == 0:
            count = int(small)
            self._small += count
            self._large += self._elements - count

    def gather(self, group: InstanceGroup) -> None:
        """Count the gradients of all instances, so that all of them decide alike."""
        if self._updates == 0:
            self._small, self._large = group.sum_counts([self._small, self._large])

    def finish_update(self) -> bool:
        """After each update: says whether the factor has changed."""
        self.used.append(self.value)
        decides = self._updates == 0
        self._updates = (self._updates + 1) % self._control.update_period
        if not decides:
            return False
        # A product, as there may be nothing but large ones.
        halves = self._large > self._control.threshold * (self._large + self._small)
        wanted = self.factor * (0.5 if halves else 2.0)
        self.factor = min(max(wanted, 1 / _LARGEST_FACTOR), _LARGEST_FACTOR)
        self._large = self._small = 0
        return True


def tracks_gradients(program: Program, control: LossScaleControl) -> bool:
    """Whether a program has any half gradients for a loss scale to follow."""
    return bool(_list_tracked(program, control))


def _list_tracked(program: Program, control: LossScaleControl) -> list[fx.Node]:
    placeholders = {entry.node for entry in program.micro.inputs_of(InputKind.HYPER)}
    return list(_find_tracked(program.micro.module.graph, program.micro.outputs, placeholders, control))


def add_statistics(draft: Draft, control: LossScaleControl) -> None:
    """Let a draft that is not yet simplified also return how many half gradients are small."""
    graph = draft.graph
    hyper = {entry.node for entry in draft.inputs if entry.kind is InputKind.HYPER}
    edge = float(torch.tensor(control.bin_edge * FLOAT16.largest, dtype=torch.float16))
    counts = []
    for node in list(_find_tracked(graph, draft.outputs, hyper, control)):
        with graph.inserting_after(node):
            size = graph.call_function(aten.abs.default, (node,))
        set_value(size, node.meta)
        with graph.inserting_after(size):
            # A NaN is not small, nor is a number at the edge, which is a half number as they are.
            small = graph.call_function(aten.lt.Scalar, (size, edge))
        set_value(small, node.meta)
        with graph.inserting_after(small):
            count = graph.call_function(aten.sum.default, (small,))
        set_value(count, node.meta)
        counts.append(count)
    with graph.inserting_before(draft.output_node):
        together = graph.call_function(aten.stack.default, (counts,))
        set_value(together, counts[-1].meta)
        total = graph.call_function(aten.sum.default, (together,))
        set_value(total, counts[-1].meta)
    entry = GraphOutput(OutputKind.STATISTIC, STATISTIC, (), torch.int64)
    draft.replace_results([*draft.results, total], [*draft.outputs, entry])


def _find_tracked(
    graph: fx.Graph, outputs: Sequence[GraphOutput], hyper: set[str], control: LossScaleControl
) -> Iterable[fx.Node]:
    """Half results of the backward pass that are no views, and no part of the loss scale itself; or half outputs."""
    if control.tracking is GradientTracking.OUTPUTS:
        for node, entry in zip(list_results(graph), outputs, strict=True):
            wanted = entry.kind is OutputKind.OUTPUT and entry.index in control.outputs
            if wanted and entry.dtype is torch.float16:
                yield node
        return
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.op != "call_function" or not isinstance(value, torch.Tensor) or value.dtype is not torch.float16:
            continue
        if note_of(node).phase is not Phase.BACKWARD or find_viewed(node) is not None or not node.users:
            continue
        if any(source.name in hyper for source in node.all_input_nodes):
            continue
        if control.tracking is GradientTracking.ALL or _names_product(node):
            yield node


def _names_product(node: fx.Node) -> bool:
    maker = node.args[0] if node.target is operator.getitem else node
    target = maker.target if isinstance(maker, fx.Node) else None
    return isinstance(target, torch._ops.OpOverload) and has_trait(str(target), Trait.MATMUL_OR_CONVOLUTION)
