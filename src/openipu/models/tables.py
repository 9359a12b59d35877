"""Recommenders: models that are mostly tables of embeddings.

In: sizes and a `Format`. Out: modules on features of users and items.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from openipu.models.layers import Format, Linear


def make_tower(sizes: Sequence[int], form: Format) -> nn.Sequential:
    """Linear layers with rectifiers between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [Linear(inputs, outputs, form), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class WideAndDeep(nn.Module):
    """Cheng et al. 2016: a linear model of crossed features beside a deep one on embeddings."""

    def __init__(self, form: Format, *, fields: int = 26, numbers: int = 13, rows: int = 1000, width: int = 32) -> None:
        super().__init__()
        self.deep_table = nn.Embedding(fields * rows, width, dtype=form.dtype)
        self.wide_table = nn.Embedding(fields * rows, 1, dtype=form.dtype)
        self.deep = make_tower((fields * width + numbers, 1024, 512, 256, 1), form)

    def forward(self, numbers: Tensor, pairs: Tensor) -> Tensor:
        """`pairs` are those of the benchmark's file: a place and a value for each field, one field after the other."""
        fields = pairs[:, 1].reshape(numbers.shape[0], -1)
        embedded = self.deep_table(fields).flatten(1)
        deep = self.deep(torch.cat((embedded, numbers), 1))
        return torch.sigmoid(deep + self.wide_table(fields).sum(1))


class DeepRecommender(nn.Module):
    """DLRM (Naumov et al. 2019): tables, a tower for numbers, products of all pairs, a tower on top."""

    def __init__(self, form: Format, *, parameters: int, tables: int = 26, width: int = 16, numbers: int = 13) -> None:
        super().__init__()
        rows = max(1, parameters // width)
        self.table = nn.Embedding(rows, width, dtype=form.dtype)
        self.numbers = make_tower((numbers, 512, 256, 64, width), form)
        pairs = (tables + 1) * tables // 2
        self.top = make_tower((pairs + width, 512, 256, 1), form)

    def forward(self, numbers: Tensor, fields: Tensor, labels: Tensor | None = None) -> Tensor:
        dense = self.numbers(numbers)
        vectors = torch.cat((dense[:, None], self.table(fields)), 1)
        count = vectors.shape[1]
        products = vectors @ vectors.transpose(1, 2)
        corner = products.flatten(1)[:, : count * (count - 1) // 2]
        logits: Tensor = self.top(torch.cat((dense, corner), 1)).flatten()
        if labels is None:
            return logits.sigmoid()
        return nn.functional.binary_cross_entropy_with_logits(logits.float(), labels.float())
