"""Recommenders that look at what a user did before: DIN and DIEN.

In: sizes and a `Format`. Out: modules on a user, a candidate and a history of items, with the loss of a click.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from openipu.models.layers import Format, Linear, make_embedding
from openipu.models.tables import make_tower


@dataclass(frozen=True, slots=True)
class InterestShape:
    """Sizes; as they stand those of Amazon's electronics, which both papers use."""

    users: int = 192_403
    items: int = 63_001
    kinds: int = 801
    width: int = 18
    attention: tuple[int, ...] = (80, 40)
    tower: tuple[int, ...] = (200, 80)


class HistoryAttention(nn.Module):
    """How much each thing of a history has to do with the candidate, by a small tower."""

    def __init__(self, width: int, sizes: tuple[int, ...], form: Format) -> None:
        super().__init__()
        self.tower = make_tower((4 * width, *sizes, 1), form)

    def forward(self, candidate: Tensor, history: Tensor) -> Tensor:
        asked = candidate[:, None].expand_as(history)
        pairs = torch.cat((asked, history, asked - history, asked * history), -1)
        result: Tensor = self.tower(pairs)[..., 0]
        return result


class InterestNetwork(nn.Module):
    """Zhou et al. 2018 (DIN): the history weighed by the candidate; `evolves`: Zhou et al. 2019 (DIEN)."""

    def __init__(self, shape: InterestShape, form: Format, *, evolves: bool = False) -> None:
        super().__init__()
        self.evolves = evolves
        width = 2 * shape.width  # an item and its kind
        self.users = make_embedding(shape.users, shape.width, form)
        self.items, self.kinds = (make_embedding(rows, shape.width, form) for rows in (shape.items, shape.kinds))
        self.attention = HistoryAttention(width, shape.attention, form)
        if evolves:
            self.extract = nn.GRU(width, width, batch_first=True, dtype=form.dtype)
            self.evolve = AttentiveGru(width, form)
        self.tower = make_tower((shape.width + 4 * width, *shape.tower, 1), form)

    def forward(
        self, user: Tensor, item: Tensor, kind: Tensor, items: Tensor, kinds: Tensor, clicked: Tensor | None = None
    ) -> Tensor:
        candidate = torch.cat((self.items(item), self.kinds(kind)), -1)
        history = torch.cat((self.items(items), self.kinds(kinds)), -1)
        total = history.sum(1)
        if self.evolves:
            history, _ = self.extract(history)
        weights = self.attention(candidate, history)
        if self.evolves:
            interest: Tensor = self.evolve(history, weights.softmax(-1))
        else:
            interest = (weights[:, None] @ history)[:, 0]
        joined = torch.cat((self.users(user), candidate, interest, candidate * interest, total), -1)
        logits: Tensor = self.tower(joined).flatten().float()
        return logits if clicked is None else nn.functional.binary_cross_entropy_with_logits(logits, clicked)


class AttentiveGru(nn.Module):
    """A GRU whose update gate is scaled by attention: what does not matter leaves no trace."""

    def __init__(self, width: int, form: Format) -> None:
        super().__init__()
        self.enter, self.recur = Linear(width, 3 * width, form), Linear(width, 3 * width, form, bias=False)

    def forward(self, steps: Tensor, weights: Tensor) -> Tensor:
        entered = self.enter(steps)
        state = torch.zeros_like(steps[:, 0])
        for index in range(steps.shape[1]):
            update, reset, new = entered[:, index].chunk(3, -1)
            past_update, past_reset, past_new = self.recur(state).chunk(3, -1)
            gate = weights[:, index, None] * (update + past_update).sigmoid()
            proposed = torch.tanh(new + (reset + past_reset).sigmoid() * past_new)
            state = (1 - gate) * state + gate * proposed
        return state
