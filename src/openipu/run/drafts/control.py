"""Loops and branches as generated functions.

In: a draft whose nodes may be a `LoopCall` or `BranchCall`. Out: the same draft with calls that run each body as one
function, simplified like the graph around it. What a body returns is memory of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from openipu.graph import BranchCall, Graph, GraphCall, LoopCall
from openipu.run.drafts.codegen import generate_function
from openipu.run.drafts.draft import Draft, draft_graph

if TYPE_CHECKING:
    Function = Callable[..., Sequence[torch.Tensor]]
    Finish = Callable[[Draft], None]


@dataclass(frozen=True, eq=False)
class _Loop(GraphCall):
    """A loop over a generated function."""

    body: Function
    count: int
    carried: int
    draws: bool

    @property
    def random(self) -> bool:
        return self.draws

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values: Sequence[torch.Tensor] = tensors[: self.carried]
        fixed = tensors[self.carried :]
        if self.count < 1:
            return tuple(value.clone() for value in values)
        for _ in range(self.count):
            values = self.body(*values, *fixed)
        return tuple(values)


@dataclass(frozen=True, eq=False)
class _Branch(GraphCall):
    """A choice between two generated functions."""

    chosen: Function
    otherwise: Function
    chosen_inputs: int
    draws: bool

    @property
    def random(self) -> bool:
        return self.draws

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if bool(tensors[0]):
            return tuple(self.chosen(*tensors[1 : 1 + self.chosen_inputs]))
        return tuple(self.otherwise(*tensors[1 + self.chosen_inputs :]))


def build_bodies(draft: Draft, finish: Finish) -> None:
    """Generate the function of each body; `finish` makes a body's draft ready, as it does for the graph around."""
    for node in draft.graph.nodes:
        call = node.target
        if isinstance(call, LoopCall):
            function = _generate(call.body, call.name, finish)
            node.target = _Loop(call.name, function, call.count, call.carried, call.random)
        elif isinstance(call, BranchCall):
            chosen = _generate(call.chosen, f"{call.name} true", finish)
            otherwise = _generate(call.otherwise, f"{call.name} false", finish)
            node.target = _Branch(call.name, chosen, otherwise, len(call.chosen.inputs), call.random)


def _generate(body: Graph, name: str, finish: Finish) -> Function:
    draft = draft_graph(body, {})
    finish(draft)
    return generate_function(draft.graph, draft.bound, f"{name} body")
