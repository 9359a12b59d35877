"""How much memory a graph needs while it runs, and how many micro-batches to batch within a budget.

In: a draft. Out: bytes at the worst moment, on top of the placeholders: weights and inputs are there anyway. Values die
after their last use, as in the generated functions; views own nothing. What an operator allocates for itself while it
runs is not counted.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import fx

from openipu.graph import OutputKind
from openipu.run.drafts.aliasing import find_viewed
from openipu.run.drafts.draft import Draft
from openipu.run.rewrites.micro_batches.checks import check_draft
from openipu.run.rewrites.micro_batches.demands import Demands, find_demands
from openipu.run.rewrites.micro_batches.rules.layers import find_partial


@dataclass(frozen=True, slots=True)
class _Life:
    """One piece of memory, from the operator that fills it to the last one that reads it."""

    node: fx.Node
    item: int | None  # for operators with several results
    size_bytes: int
    first: int
    last: int


def estimate_peak_bytes(draft: Draft, *, keep_gradients: bool = True) -> int:
    """The most bytes that values of the graph take at one time.

    With `keep_gradients` gradients stay to the end, as returned values do; without it they die at once, as they do
    where each is added to its accumulator or applied as soon as it is there.
    """
    return _find_peak(_list_lives(draft, keep_gradients), lambda life: 1)


def estimate_batched_bytes(draft: Draft, factor: int, *, keep_gradients: bool = True) -> int:
    """The same for a batched draft, from the draft of one micro-batch."""
    demands = find_demands(draft)
    return _find_peak(_list_lives(draft, keep_gradients), lambda life: _count_copies(life, demands, factor))


def choose_factor(draft: Draft, accumulation: int, budget_bytes: int, *, keep_gradients: bool = True) -> int:
    """The largest divisor of the accumulation steps that can be batched within a budget; 1 where nothing can."""
    if check_draft(draft) is not None:
        return 1
    lives, demands = _list_lives(draft, keep_gradients), find_demands(draft)
    for factor in range(accumulation, 1, -1):
        if accumulation % factor == 0:
            peak = _find_peak(lives, lambda life, factor=factor: _count_copies(life, demands, factor))  # type: ignore[misc]
            if peak <= budget_bytes:
                return factor
    return 1


def _count_copies(life: _Life, demands: Demands, factor: int) -> int:
    """How often a value is there in the batched draft."""
    node = life.node
    if node not in demands.batched:
        return 1 if node in demands.values or node in demands.totals else 0
    rule = find_partial(node, demands.is_batched)
    if life.item is not None and rule is not None:
        each = life.item < rule.each or life.item in demands.items.get(node, ())
        return factor if each else 1
    if node in demands.values:
        return factor
    return 1 if node in demands.totals else 0


def _find_peak(lives: list[_Life], count: Callable[[_Life], int]) -> int:
    changes = [0] * (max((life.last for life in lives), default=0) + 2)
    for life in lives:
        size_bytes = life.size_bytes * count(life)
        changes[life.first] += size_bytes
        changes[life.last + 1] -= size_bytes
    return max(accumulate(changes))


def _list_lives(draft: Draft, keep_gradients: bool) -> list[_Life]:
    nodes = list(draft.graph.nodes)
    kept = {
        node
        for node, entry in zip(draft.results, draft.outputs, strict=True)
        if keep_gradients or entry.kind is not OutputKind.GRADIENT
    }
    place = {node: index for index, node in enumerate(nodes)}
    end = len(nodes) - 1
    owner: dict[fx.Node, fx.Node] = {}
    last: dict[fx.Node, int] = {}
    for node in nodes:
        viewed = find_viewed(node)
        owner[node] = owner[viewed] if viewed is not None else node
        used = [place[user] for user in node.users if user.op != "output"]
        own = end if node in kept else max(used, default=place[node])
        last[owner[node]] = max(last.get(owner[node], 0), own)
    lives: list[_Life] = []
    for node in nodes:
        if node.op != "call_function" or owner[node] is not node or node.target is operator.getitem:
            continue
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            lives.append(_Life(node, None, value.nbytes, place[node], last[node]))
            continue
        for index, item in enumerate(value or ()):
            if isinstance(item, torch.Tensor):
                readers = [last[user] for user in node.users if user.args[1] == index]
                death = max([*readers, last[node]])
                lives.append(_Life(node, index, item.nbytes, place[node], death))
    return lives
