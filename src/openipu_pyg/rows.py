"""Lists of different lengths in one tensor: the neighbours of each node. In: edges. Out: places by node."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, eq=False, slots=True)
class Rows:
    """`values[starts[i]:starts[i + 1]]` are those of row i."""

    starts: torch.Tensor
    values: torch.Tensor

    @classmethod
    def from_edges(cls, edge_index: torch.Tensor, num_rows: int) -> Rows:
        """What the first of two rows of indices points to."""
        order = torch.argsort(edge_index[0], stable=True)
        counts = torch.bincount(edge_index[0], minlength=num_rows)
        return cls(torch.cat([counts.new_zeros(1), counts.cumsum(0)]), edge_index[1][order])

    def expand(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The places of all values of these rows, and for each of them which of `rows` it belongs to."""
        starts = self.starts[rows]
        lengths = self.starts[rows + 1] - starts
        owners = torch.repeat_interleave(torch.arange(len(rows)), lengths)
        before = lengths.cumsum(0) - lengths
        return torch.arange(len(owners)) - before[owners] + starts[owners], owners

    def draw(self, rows: torch.Tensor, number: int, replace: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """The same for at most `number` values of each row, drawn by PyTorch's generator; below 0, for all."""
        if number < 0:
            return self.expand(rows)
        if replace:
            lengths = self.starts[rows + 1] - self.starts[rows]
            owners = (lengths > 0).nonzero().flatten().repeat_interleave(number)
            offsets = (torch.rand(len(owners), dtype=torch.float64) * lengths[owners]).long()
            return self.starts[rows[owners]] + offsets, owners
        places, owners = self.expand(rows)
        order = torch.argsort(owners + torch.rand(len(owners), dtype=torch.float64))  # by row, at random in it
        lengths = torch.bincount(owners, minlength=len(rows))
        first = lengths.cumsum(0) - lengths
        chosen = order[torch.arange(len(owners)) - first[owners] < number]
        return places[chosen], owners[chosen]
