"""Sparse matrices on the host: coordinates, compressed rows, compressed columns; of single values or of blocks.

In: non-zero values, and where they are. Out: `Blocks`, sorted by row and column, from which each format is made again.
Indices count rows and columns of the matrix, also for blocks; starts count values. Values of a block are in the order
of rows, in compressed columns in the order of columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poplar._errors import poplar_error

Numbers = NDArray[np.int64]


@dataclass(slots=True)
class _Matrix:
    """Fields as in the original. Sizes of 0 are those of the product that the matrix is for."""

    numRows: int
    numColumns: int
    nzValues: Any
    columnIndices: Any
    rowIndices: Any
    blockDimensions: Sequence[int] = (1, 1)

    def getBlockSize(self) -> int:
        return int(self.blockDimensions[0] * self.blockDimensions[1])

    def getBlockDimensions(self) -> list[int]:
        return list(self.blockDimensions)

    def getNumRowsInBlock(self) -> int:
        return int(self.blockDimensions[0])

    def getNumColumnsInBlock(self) -> int:
        return int(self.blockDimensions[1])


class COOMatrix(_Matrix):
    """Coordinates: a row and a column for each block."""


class CSRMatrix(_Matrix):
    """Compressed rows: a column for each block; `rowIndices` says where each row of blocks starts in the values."""


class CSCMatrix(_Matrix):
    """Compressed columns: a row for each block; `columnIndices` says where each column of blocks starts."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A matrix as blocks: `rows` by `columns` values in blocks of `height` by `width`."""

    rows: int
    columns: int
    height: int = 1
    width: int = 1

    def __post_init__(self) -> None:
        if min(self.rows, self.columns, self.height, self.width) < 1:
            raise poplar_error(
                f"A sparse matrix of {self.rows} x {self.columns} in blocks of {self.height} x {self.width} has no"
                " values."
            )
        if self.rows % self.height or self.columns % self.width:
            raise poplar_error(
                f"A matrix of {self.rows} x {self.columns} cannot be divided into blocks of"
                f" {self.height} x {self.width}."
            )

    @property
    def size(self) -> int:
        """Values of a block."""
        return self.height * self.width

    @property
    def across(self) -> int:
        return self.columns // self.width

    @property
    def down(self) -> int:
        return self.rows // self.height

    @property
    def count(self) -> int:
        """Blocks of the whole matrix."""
        return self.down * self.across


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks that are there, in order: their numbers in the grid, and their values `[blocks, height, width]`."""

    grid: Grid
    numbers: Numbers
    values: NDArray[Any]


def read_matrix(matrix: Any, grid: Grid) -> Blocks:
    """Check a matrix against the product it is for, and put its blocks in order."""
    if not isinstance(matrix, _Matrix):
        raise poplar_error(f"A sparse matrix is a COOMatrix, CSRMatrix or CSCMatrix, not {matrix!r}.")
    kind = type(matrix).__name__
    _check_sizes(matrix, grid, kind)
    values = np.asarray(matrix.nzValues).reshape(-1)
    if len(values) % grid.size:
        raise poplar_error(f"{kind}: {len(values)} values are no whole number of blocks of {grid.size}.")
    blocks = len(values) // grid.size
    rows, columns = _read_indices(matrix.rowIndices, kind, "row"), _read_indices(matrix.columnIndices, kind, "column")
    if isinstance(matrix, CSRMatrix):
        rows = _read_starts(rows, grid.down, grid, len(values), kind, "rowIndices") * grid.height
    if isinstance(matrix, CSCMatrix):
        columns = _read_starts(columns, grid.across, grid, len(values), kind, "columnIndices") * grid.width
    for what, indices, extent, step in (
        ("row", rows, grid.rows, grid.height),
        ("column", columns, grid.columns, grid.width),
    ):
        if len(indices) != blocks:
            raise poplar_error(f"{kind}: {len(indices)} {what} indices for {blocks} blocks of values.")
        wrong = np.flatnonzero((indices < 0) | (indices >= extent) | (indices % step != 0))
        if len(wrong):
            raise poplar_error(
                f"{kind}: {what} index {indices[wrong[0]]} at place {wrong[0]} is no start of a block within"
                f" {extent} {what}s in steps of {step}."
            )
    numbers = rows // grid.height * grid.across + columns // grid.width
    order = np.argsort(numbers, kind="stable")
    numbers = numbers[order]
    twice = np.flatnonzero(numbers[1:] == numbers[:-1])
    if len(twice):
        row, column = divmod(int(numbers[twice[0]]), grid.across)
        raise poplar_error(
            f"{kind}: the block at row {row * grid.height}, column {column * grid.width} is there twice."
        )
    if isinstance(matrix, CSCMatrix):
        shaped = values.reshape(blocks, grid.width, grid.height).transpose(0, 2, 1)
    else:
        shaped = values.reshape(blocks, grid.height, grid.width)
    return Blocks(grid, numbers, shaped[order])


def _check_sizes(matrix: _Matrix, grid: Grid, kind: str) -> None:
    for what, given, wanted in (("rows", matrix.numRows, grid.rows), ("columns", matrix.numColumns, grid.columns)):
        if given and given != wanted:
            raise poplar_error(f"{kind}: it has {given} {what}, and the product needs {wanted}.")
    if list(matrix.blockDimensions) != [grid.height, grid.width]:
        raise poplar_error(
            f"{kind}: blocks are {list(matrix.blockDimensions)}, and the product needs {[grid.height, grid.width]}."
        )


def _read_indices(given: Any, kind: str, what: str) -> Numbers:
    found = np.asarray(given)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise poplar_error(f"{kind}: {what} indices are a list of whole numbers.")
    return found.astype(np.int64)


def _read_starts(starts: Numbers, lines: int, grid: Grid, values: int, kind: str, field: str) -> Numbers:
    """Which line of blocks each block is in."""
    if len(starts) != lines + 1:
        raise poplar_error(
            f"{kind}: {field} needs {lines + 1} entries, one more than lines of blocks, not {len(starts)}."
        )
    sizes = np.diff(starts)
    if starts[0] != 0 or starts[-1] != values or (sizes < 0).any() or (sizes % grid.size).any():
        raise poplar_error(
            f"{kind}: {field} must go from 0 to {values} (all values) in steps of whole blocks of {grid.size}."
        )
    return np.repeat(np.arange(lines), sizes // grid.size)


def write_coo(blocks: Blocks) -> COOMatrix:
    grid = blocks.grid
    rows, columns = np.divmod(blocks.numbers, grid.across)
    return COOMatrix(
        grid.rows, grid.columns, blocks.values.reshape(-1), columns * grid.width, rows * grid.height,
        (grid.height, grid.width),
    )  # fmt: skip


def write_csr(blocks: Blocks) -> CSRMatrix:
    grid = blocks.grid
    rows, columns = np.divmod(blocks.numbers, grid.across)
    starts = _count_starts(rows, grid.down, grid.size)
    return CSRMatrix(
        grid.rows, grid.columns, blocks.values.reshape(-1), columns * grid.width, starts, (grid.height, grid.width)
    )


def write_csc(blocks: Blocks) -> CSCMatrix:
    grid = blocks.grid
    rows, columns = np.divmod(blocks.numbers, grid.across)
    order = np.argsort(columns, kind="stable")
    starts = _count_starts(columns, grid.across, grid.size)
    values = blocks.values[order].transpose(0, 2, 1).reshape(-1)
    return CSCMatrix(grid.rows, grid.columns, values, starts, rows[order] * grid.height, (grid.height, grid.width))


def _count_starts(lines: Numbers, count: int, size: int) -> Numbers:
    found = np.zeros(count + 1, dtype=np.int64)
    found[1:] = np.cumsum(np.bincount(lines, minlength=count)) * size
    return found
