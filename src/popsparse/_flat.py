"""Sparse tensors and matrices as plain lists of tensors and numbers, as C++ calls them.

In: parts of sparse tensors and matrices. Out: the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from poplar import Graph, Tensor, Type
from popsparse import dynamic, static_
from popsparse._formats import COOMatrix, CSCMatrix, CSRMatrix, Grid
from popsparse._partitioner import Partitioner, SparsityDataImpl
from popsparse._tensors import SparseTensor

_MATRICES = {"COO": COOMatrix, "CSR": CSRMatrix, "CSC": CSCMatrix}
Parts = list[Any]


def make_tensor(metaInfo: Tensor, nzValues: Tensor, grid: list[int]) -> SparseTensor:
    return SparseTensor(metaInfo, nzValues, Grid(*grid))


def make_matrix(kind: str, sizes: list[int], values: bytes, columns: Any, rows: Any) -> Any:
    """`sizes` are rows, columns, and those of a block."""
    numbers = np.frombuffer(values, dtype="<f8")
    return _MATRICES[kind](sizes[0], sizes[1], numbers, np.asarray(columns), np.asarray(rows), (sizes[2], sizes[3]))


def create(graph: Graph, module: str, function: str, element: Type, *arguments: Any) -> Parts:
    """A sparse tensor, as [where, values, rows, columns, height and width of a block]."""
    made: SparseTensor = getattr({"dynamic": dynamic, "static_": static_}[module], function)(graph, element, *arguments)
    grid = made.grid
    return [made.metaInfo, made.nzValues, grid.rows, grid.columns, grid.height, grid.width]


def partition(params: Any, element: Type, options: dict[str, str], matrix: Any) -> Parts:
    """[numbers of blocks, values]."""
    found = Partitioner(params, element, None, options).createSparsityDataImpl(matrix)
    return [found.metaInfo.astype(np.int64), found.nzValues.astype("<f8").tobytes()]


def collect(params: Any, element: Type, options: dict[str, str], kind: str, numbers: Any, values: bytes) -> Parts:
    """A matrix again: [rows, columns, values, column indices, row indices]."""
    data = SparsityDataImpl(np.asarray(numbers).astype(np.uint32), np.frombuffer(values, dtype="<f8"))
    made = getattr(Partitioner(params, element, None, options), f"sparsityDataImplTo{kind}Matrix")(data)
    indices = [np.asarray(one).astype(np.int64) for one in (made.columnIndices, made.rowIndices)]
    return [made.numRows, made.numColumns, np.asarray(made.nzValues).astype("<f8").tobytes(), *indices]
