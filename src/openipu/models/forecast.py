"""Small models of numbers: sales forecasts, evapotranspiration, decisions of an agent.

In: sizes and a `Format`. Out: modules with their losses.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from openipu.capture import mark_loss
from openipu.models.layers import Format, Linear, make_embedding
from openipu.models.tables import make_tower


class TableForecast(nn.Module):
    """Guo and Berkhahn 2016: a vector for each value of each column, a tower over all of them, one number."""

    def __init__(
        self, form: Format, *, columns: Sequence[int], numbers: int, width: int, hidden: Sequence[int]
    ) -> None:
        super().__init__()
        self.tables = nn.ModuleList([make_embedding(count, width, form) for count in columns])
        self.tower = make_tower((len(columns) * width + numbers, *hidden, 1), form)

    def forward(self, columns: Tensor, numbers: Tensor, wanted: Tensor | None = None) -> Tensor:
        vectors = [table(columns[:, index]) for index, table in enumerate(self.tables)]
        answer: Tensor = self.tower(torch.cat((*vectors, numbers), 1)).flatten()
        return answer if wanted is None else nn.functional.mse_loss(answer.float(), wanted.float())


class WeatherRegression(nn.Module):
    """Days of weather through an LSTM, and the last day's evapotranspiration."""

    def __init__(self, form: Format, *, features: int = 6, hidden: int = 128) -> None:
        super().__init__()
        self.recur = nn.LSTM(features, hidden, batch_first=True, dtype=form.dtype)
        self.answer = make_tower((hidden + features, hidden, 1), form)

    def forward(self, days: Tensor, wanted: Tensor | None = None) -> Tensor:
        past, _ = self.recur(days)
        answer: Tensor = self.answer(torch.cat((past[:, -1], days[:, -1]), 1)).flatten()
        return answer if wanted is None else nn.functional.mse_loss(answer.float(), wanted.float())


class Policy(nn.Module):
    """An agent's choice and its guess of what is to come (Mnih et al. 2016), with memory where `recurrent`."""

    def __init__(self, form: Format, *, features: int, hidden: int, actions: int, layers: int = 1) -> None:
        super().__init__()
        self.enter = make_tower((features, *([hidden] * layers)), form)
        self.choose, self.value = Linear(hidden, actions, form), Linear(hidden, 1, form)

    def forward(self, seen: Tensor, actions: Tensor | None = None, returns: Tensor | None = None) -> Tensor:
        """Logits of actions; with what was done and what came of it, the loss of both heads."""
        hidden = self.enter(seen).relu()
        logits: Tensor = self.choose(hidden).float()
        if actions is None or returns is None:
            return logits
        value = self.value(hidden).float().flatten()
        better = (returns - value).detach()
        chances = logits.log_softmax(-1)
        chosen = chances.gather(1, actions[:, None]).flatten()
        spread = -(chances.exp() * chances).sum(-1)  # keeps the agent curious
        return mark_loss(-(chosen * better) + 0.5 * (returns - value).square() - 0.01 * spread, "mean")
