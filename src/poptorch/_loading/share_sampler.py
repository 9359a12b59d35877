"""One process's share of a dataset that several processes train on.

In: the number of elements, the elements of one step, the processes. Out: a sampler over a contiguous block. All
processes have as many batches; with a seed, every epoch has a permutation of its own that all processes agree on.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch.utils.data import Sampler


class ShareSampler(Sampler[int]):
    """Elements left over by the division are among those of the next epoch, where elements are shuffled."""

    def __init__(
        self, elements: int, step: int, process: int, processes: int, *, drop_last: bool, seed: int | None
    ) -> None:
        if drop_last:
            shares = [step * (elements // (step * processes))] * processes
        else:
            shares = [elements // processes + (elements % processes > index) for index in range(processes)]
        self._elements = elements
        self._used = sum(shares)
        self._first = sum(shares[:process])
        self._share = shares[process]
        self._seed = seed
        self._epoch = 0
        self._left_out: set[int] = set()

    def __len__(self) -> int:
        return self._share

    def __iter__(self) -> Iterator[int]:
        order = list(range(self._elements))
        if self._seed is not None:
            generator = torch.Generator().manual_seed(self._seed + self._epoch)
            order = self._bring_in(torch.randperm(self._elements, generator=generator).tolist())
            self._epoch += 1
        return iter(order[self._first : self._first + self._share])

    def _bring_in(self, order: list[int]) -> list[int]:
        """Exchange elements that would be left out twice in a row with some that were used."""
        places = iter(range(self._used))
        for late in range(self._used, self._elements):
            if order[late] in self._left_out:
                early = next((place for place in places if order[place] not in self._left_out), None)
                if early is None:
                    break
                order[early], order[late] = order[late], order[early]
        self._left_out = set(order[self._used :])
        return order
