"""From a matrix on the host to what `SparseTensor` holds, and back.

In: a matrix in any format. Out: `SparsityDataImpl` with as many entries as the tensors have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poplar import Target, Type
from poplar._errors import poplar_error
from popsparse._formats import (
    Blocks,
    COOMatrix,
    CSCMatrix,
    CSRMatrix,
    read_matrix,
    write_coo,
    write_csc,
    write_csr,
)
from popsparse._params import FullyConnectedParams, MatMulParams, check_options


@dataclass(frozen=True, slots=True)
class SparsityDataImpl:
    """What is written to the two tensors of a `SparseTensor`."""

    metaInfo: NDArray[np.uint32]
    nzValues: NDArray[Any]


class Partitioner:
    """`(params, type, target, options)`, as in the original."""

    def __init__(
        self, params: FullyConnectedParams | MatMulParams, dataType: Type, target: Target | None = None, *rest: Any
    ) -> None:
        check_options(rest)
        self._params = params
        self._format = np.dtype(dataType.dtype)

    def createSparsityDataImpl(self, matrix: COOMatrix | CSRMatrix | CSCMatrix) -> SparsityDataImpl:
        grid, capacity = self._params.grid, self._params.capacity
        blocks = read_matrix(matrix, grid)
        count = len(blocks.numbers)
        if count > capacity:
            raise poplar_error(
                f"The matrix has {count * grid.size} non-zero values, and there is room for {capacity * grid.size}:"
                f" make the parameters with a share of at least {count / grid.count:.4g}."
            )
        numbers = np.full(capacity, grid.count, dtype=np.uint32)
        values = np.zeros(capacity * grid.size, dtype=self._format)
        numbers[:count], values[: count * grid.size] = blocks.numbers, blocks.values.reshape(-1)
        return SparsityDataImpl(numbers, values)

    def _read(self, data: SparsityDataImpl) -> Blocks:
        grid = self._params.grid
        numbers = np.asarray(data.metaInfo).astype(np.int64)
        values = np.asarray(data.nzValues).reshape(len(numbers), grid.height, grid.width)
        kept = np.flatnonzero(numbers < grid.count)
        order = kept[np.argsort(numbers[kept], kind="stable")]
        return Blocks(grid, numbers[order], values[order])

    def sparsityDataImplToCOOMatrix(self, data: SparsityDataImpl) -> COOMatrix:
        return write_coo(self._read(data))

    def sparsityDataImplToCSRMatrix(self, data: SparsityDataImpl) -> CSRMatrix:
        return write_csr(self._read(data))

    def sparsityDataImplToCSCMatrix(self, data: SparsityDataImpl) -> CSCMatrix:
        return write_csc(self._read(data))
