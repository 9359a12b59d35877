"""Models that give back what they were given: the autoencoder of ratings and the variational autoencoder.

In: sizes and a `Format`. Out: modules with their losses.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from openipu.capture import mark_loss
from openipu.models.layers import Format, Linear


class RatingAutoencoder(nn.Module):
    """Kuchaiev and Ginsburg 2017: a user's ratings through a narrow layer; what was not rated does not count."""

    def __init__(self, form: Format, *, items: int = 17_768, sizes: tuple[int, ...] = (512, 512, 1024)) -> None:
        super().__init__()
        widths = (items, *sizes)
        self.layers = nn.ModuleList([Linear(wide, narrow, form) for wide, narrow in pairwise(widths)])
        self.back = nn.ModuleList([Linear(narrow, wide, form) for wide, narrow in reversed(list(pairwise(widths)))])

    def forward(self, ratings: Tensor, wanted: Tensor | None = None) -> Tensor:
        """`wanted` are the ratings to give back, 0 where there is none."""
        hidden = ratings
        for layer in self.layers:
            hidden = nn.functional.selu(layer(hidden))
        for index, layer in enumerate(self.back):
            hidden = layer(hidden)
            if index + 1 < len(self.back):
                hidden = nn.functional.selu(hidden)
        if wanted is None:
            return hidden
        rated = (wanted != 0).float()
        missed = (hidden.float() - wanted.float()).square() * rated
        return mark_loss(missed.sum() / rated.sum().clamp(min=1.0), "sum")


class VariationalAutoencoder(nn.Module):
    """Kingma and Welling 2013: pictures from a few random numbers whose spread is learned."""

    def __init__(self, form: Format, *, pixels: int = 784, hidden: int = 200, latent: int = 50) -> None:
        super().__init__()
        self.enter, self.describe = Linear(pixels, hidden, form), Linear(hidden, 2 * latent, form)
        self.leave, self.draw = Linear(latent, hidden, form), Linear(hidden, pixels, form)

    def forward(self, pictures: Tensor, wanted: Tensor | None = None) -> Tensor:
        middle, spread = self.describe(torch.tanh(self.enter(pictures))).chunk(2, -1)
        if wanted is None:
            return self._draw(middle).sigmoid()
        chosen = middle + torch.randn_like(middle) * (0.5 * spread).exp()
        drawn = nn.functional.binary_cross_entropy_with_logits(
            self._draw(chosen).float(), wanted.float(), reduction="none"
        )
        away = -0.5 * (1 + spread - middle.square() - spread.exp())  # from the normal distribution
        return mark_loss(drawn.sum(-1).mean() + away.float().sum(-1).mean(), "sum")

    def _draw(self, chosen: Tensor) -> Tensor:
        result: Tensor = self.draw(torch.tanh(self.leave(chosen)))
        return result
