"""What a sparse product needs to know before its values are there: sizes, blocks, and how many may be non-zero.

In: numbers as the original takes them. Out: checked parameters, each with its `Grid`, and checked options.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from poplar._errors import invalid_option, poplar_error
from popsparse._formats import Grid


class PlanningCache:
    """Plans are kept by the planner itself; this is here to be passed on."""


class SparsityType(Enum):
    Element = "element"
    Block = "block"


class SparsityStructure(Enum):
    Unstructured = "unstructured"


_BUCKETS = "the values of a matrix are one tensor here, not buckets of tiles"
_DENSE = "results and prices are those of the dense product"
WITHOUT_EFFECT: Mapping[str, str] = {
    "availableMemoryProportion": _DENSE,
    "doGradAPass": _DENSE,
    "doGradWPass": _DENSE,
    "metaInfoBucketOversizeProportion": _BUCKETS,
    "partialsType": _DENSE,
    "sharedBuckets": _BUCKETS,
}


def check_options(given: Sequence[Any]) -> None:
    """Names and caches may stand among the arguments; options must be known ones."""
    for options in given:
        if isinstance(options, Mapping):
            for name in options:
                if name not in WITHOUT_EFFECT:
                    known = ", ".join(WITHOUT_EFFECT)
                    raise invalid_option(f"popsparse has no option {name!r}. It has: {known}.")


@dataclass(frozen=True)
class SparsityParams:
    """Blocks of one value are elements, as in the original."""

    type: SparsityType = SparsityType.Element
    structure: SparsityStructure = SparsityStructure.Unstructured
    blockDimensions: Sequence[int] = field(default=(1, 1))

    def __post_init__(self) -> None:
        height, width = self.blockDimensions
        kind = SparsityType.Element if height * width == 1 else SparsityType.Block
        object.__setattr__(self, "type", kind)
        object.__setattr__(self, "blockDimensions", (int(height), int(width)))


def _check_ratio(ratio: float) -> float:
    if not 0 <= ratio <= 1:
        raise poplar_error(f"The share of non-zero values is from 0 to 1, not {ratio!r}.")
    return float(ratio)


def _check_groups(groups: int) -> int:
    if groups != 1:
        raise poplar_error(f"Sparse products take one group, not {groups}. Make one product for each.")
    return groups


@dataclass(frozen=True)
class _Sparse:
    """A sparse matrix `grid`, of which `ratio` may be non-zero."""

    sparsityParams: SparsityParams
    nzRatio: float
    grid: Grid

    def getSparsityParams(self) -> SparsityParams:
        return self.sparsityParams

    def getNzRatio(self) -> float:
        return self.nzRatio

    def getNumGroups(self) -> int:
        return 1

    def getNumNonZeroValues(self) -> int:
        return self.capacity * self.grid.size

    @property
    def capacity(self) -> int:
        """Blocks that there is room for; at least one, so that tensors are not empty."""
        return max(1, math.ceil(self.nzRatio * self.grid.count - 1e-9))


def _grid(params: SparsityParams, rows: int, columns: int) -> Grid:
    return Grid(int(rows), int(columns), *params.blockDimensions)


def _ratio_of(values: int, grid: Grid) -> float:
    if not 0 <= values <= grid.rows * grid.columns:
        raise poplar_error(f"A matrix of {grid.rows} x {grid.columns} cannot have {values} non-zero values.")
    return values / (grid.rows * grid.columns)


@dataclass(frozen=True)
class FullyConnectedParams(_Sparse):
    """A layer with weights [output channels, input channels]."""

    batchSize: int = 1

    @classmethod
    def createWithNzRatio(
        cls,
        sparsityParams: SparsityParams,
        nzRatio: float,
        batchSize: int,
        numGroups: int,
        inputChannels: int,
        outputChannels: int,
    ) -> FullyConnectedParams:
        _check_groups(numGroups)
        grid = _grid(sparsityParams, outputChannels, inputChannels)
        return cls(sparsityParams, _check_ratio(nzRatio), grid, int(batchSize))

    @classmethod
    def createWithNumNonZeroValues(
        cls,
        sparsityParams: SparsityParams,
        numNonZeroElems: int,
        batchSize: int,
        numGroups: int,
        inputChannels: int,
        outputChannels: int,
    ) -> FullyConnectedParams:
        _check_groups(numGroups)
        grid = _grid(sparsityParams, outputChannels, inputChannels)
        return cls(sparsityParams, _ratio_of(numNonZeroElems, grid), grid, int(batchSize))

    def getBatchSize(self) -> int:
        return self.batchSize

    def getInputChannels(self) -> int:
        return self.grid.columns

    def getOutputChannels(self) -> int:
        return self.grid.rows

    getInputChannelsPerGroup = getInputChannels
    getOutputChannelsPerGroup = getOutputChannels


@dataclass(frozen=True)
class MatMulParams(_Sparse):
    """Sparse [m, k] times dense [k, n]."""

    n: int = 1

    @classmethod
    def createWithNzRatio(
        cls, sparsityParams: SparsityParams, nzRatio: float, groups: int, m: int, k: int, n: int
    ) -> MatMulParams:
        _check_groups(groups)
        return cls(sparsityParams, _check_ratio(nzRatio), _grid(sparsityParams, m, k), int(n))

    @classmethod
    def createWithNumNonZeroValues(
        cls, sparsityParams: SparsityParams, numNonZeroElems: int, groups: int, m: int, k: int, n: int
    ) -> MatMulParams:
        _check_groups(groups)
        grid = _grid(sparsityParams, m, k)
        return cls(sparsityParams, _ratio_of(numNonZeroElems, grid), grid, int(n))

    def getM(self) -> int:
        return self.grid.rows

    def getK(self) -> int:
        return self.grid.columns

    def getN(self) -> int:
        return self.n


@dataclass(frozen=True)
class StaticMatMulParams:
    """Sizes of a product whose pattern is known when the graph is made."""

    m: int
    k: int
    n: int
    transposed: bool

    @classmethod
    def createForSparseDense(cls, groups: int, m: int, k: int, n: int) -> StaticMatMulParams:
        """Sparse [m, k] times dense [k, n]."""
        _check_groups(groups)
        return cls(int(m), int(k), int(n), False)

    @classmethod
    def createForDenseSparse(cls, groups: int, n: int, k: int, m: int) -> StaticMatMulParams:
        """Dense [n, k] times sparse [k, m]."""
        _check_groups(groups)
        return cls(int(m), int(k), int(n), True)

    def getNumGroups(self) -> int:
        return 1

    def getM(self) -> int:
        return self.m

    def getK(self) -> int:
        return self.k

    def getN(self) -> int:
        return self.n

    def isTransposed(self) -> bool:
        return self.transposed
