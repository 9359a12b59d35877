"""Sparse tensors of a graph, and how they become dense ones and back.

In: numbers of blocks (`metaInfo`) and their values (`nzValues`). Out: traced functions. A number that no block has (the
count of blocks) marks room that is not used: its values are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from poplar import Graph, Tensor, Type
from poplar._errors import poplar_error
from poplar._linear import mapTensorLinearly
from popsparse._formats import Grid


@dataclass(frozen=True, slots=True)
class SparseTensor:
    """Where the non-zero values are, and what they are."""

    metaInfo: Tensor
    nzValues: Tensor
    grid: Grid

    def getMetaInfoTensor(self) -> Tensor:
        return self.metaInfo

    def getNzValuesTensor(self) -> Tensor:
        return self.nzValues


def make_variable(graph: Graph, element: Type, shape: Sequence[int], name: str) -> Tensor:
    made = graph.addVariable(element, list(shape), name)
    mapTensorLinearly(graph, made)
    return made


def check_shape(function: str, what: str, tensor: Tensor, shape: Sequence[int]) -> None:
    if tensor.shape() != list(shape):
        raise poplar_error(f"{function}: {what} needs shape {list(shape)}, not {tensor.shape()}.")


def spread(numbers: torch.Tensor, values: torch.Tensor, grid: Grid) -> torch.Tensor:
    """The dense matrix."""
    room = torch.zeros(grid.count + 1, grid.size, dtype=values.dtype)
    filled = torch.index_copy(room, 0, numbers.to(torch.int64), values.reshape(-1, grid.size))[: grid.count]
    shaped = filled.reshape(grid.down, grid.across, grid.height, grid.width)
    return shaped.permute(0, 2, 1, 3).reshape(grid.rows, grid.columns)


def pick(numbers: torch.Tensor, dense: torch.Tensor, grid: Grid) -> torch.Tensor:
    """The values of a dense matrix where there are blocks; zeros for room that is not used."""
    shaped = dense.reshape(grid.down, grid.height, grid.across, grid.width).permute(0, 2, 1, 3)
    rows = shaped.reshape(grid.count, grid.size)
    rows = torch.cat([rows, torch.zeros(1, grid.size, dtype=dense.dtype)])
    return torch.index_select(rows, 0, numbers.to(torch.int64)).reshape(-1)
