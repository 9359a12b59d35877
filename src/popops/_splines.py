"""Uniform B-splines over coordinates from 0 to 1, for convolutions on graphs.

In: coordinates of edges, kernels of weights. Out: for each edge the splines that are not zero there, the weights they
belong to, and features weighted by them.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from openipu.graph.mapped import INT, UNSIGNED_CHAR
from poplar import Graph, Tensor
from poplar._errors import poplar_error
from poplar._library import Target, call_library

_Piece = Callable[[torch.Tensor], torch.Tensor]
# By degree: the pieces of a uniform B-spline, at `v` from 0 to 1 after its knot; the first is the one that ends.
_PIECES: dict[int, tuple[_Piece, ...]] = {
    1: (lambda v: 1 - v, lambda v: v),
    2: (lambda v: (1 - v) ** 2 / 2, lambda v: (1 + 2 * v - 2 * v**2) / 2, lambda v: v**2 / 2),
    3: (
        lambda v: (1 - v) ** 3 / 6,
        lambda v: (4 - 6 * v**2 + 3 * v**3) / 6,
        lambda v: (1 + 3 * v + 3 * v**2 - 3 * v**3) / 6,
        lambda v: v**3 / 6,
    ),
}


def splineBasis(
    graph: Graph,
    pseudo: Tensor,
    kernelSize: Tensor,
    isOpenSpline: Tensor,
    basis: Tensor,
    weightIndex: Tensor,
    degree: int,
    prog: Target,
    name: str = "",
) -> None:
    """Products of splines of each dimension, `(degree + 1) ** dimensions` an edge; the first dimension is fastest."""
    if degree not in _PIECES:
        raise poplar_error(f"splineBasis: the degree is 1, 2 or 3, not {degree}.")
    if pseudo.rank() != 2 or kernelSize.shape() != [pseudo.dim(1)] or isOpenSpline.shape() != [pseudo.dim(1)]:
        raise poplar_error(
            "splineBasis: coordinates are [edges, dimensions], kernel sizes and openness one number for each dimension;"
            f" they are {pseudo.shape()}, {kernelSize.shape()} and {isOpenSpline.shape()}."
        )
    if kernelSize.elementType() != INT or isOpenSpline.elementType() != UNSIGNED_CHAR:
        raise poplar_error("splineBasis: kernel sizes are INT, openness is UNSIGNED_CHAR.")
    edges, dims = pseudo.shape()
    shape = [edges, (degree + 1) ** dims]
    if basis.shape() != shape or weightIndex.shape() != shape:
        raise poplar_error(f"splineBasis: the results need shape {shape}.")

    def traced(places: torch.Tensor, sizes: torch.Tensor, opens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        product = torch.ones(edges, 1, dtype=places.dtype)
        index = torch.zeros(edges, 1, dtype=torch.int64)
        stride = torch.ones(1, dtype=torch.int64)
        for dimension in range(dims):
            size = sizes[dimension : dimension + 1].to(torch.int64)
            knots = size - degree * opens[dimension : dimension + 1].to(torch.int64)
            scaled = places[:, dimension] * knots.to(places.dtype)
            whole = torch.floor(scaled)
            parts = torch.stack([piece(scaled - whole) for piece in _PIECES[degree]], 1)
            steps = torch.arange(degree + 1, dtype=torch.int64).unsqueeze(0)
            entries = torch.remainder(whole.to(torch.int64).unsqueeze(1) + steps, size)
            product = (parts.unsqueeze(2) * product.unsqueeze(1)).reshape(edges, -1)
            index = (entries.unsqueeze(2) * stride + index.unsqueeze(1)).reshape(edges, -1)
            stride = stride * size
        return product, index.to(torch.int32)

    operands = [pseudo, kernelSize, isOpenSpline]
    call_library(graph, prog, "popops::splineBasis", traced, operands, outputs=[basis, weightIndex], name=name)


def splineWeighting(
    graph: Graph, input: Tensor, weight: Tensor, basis: Tensor, weightIndex: Tensor, prog: Target, name: str = ""
) -> Tensor:
    """[edges, inputs] times for each edge the sum of its weights [kernel, inputs, outputs] by their splines."""
    if weight.rank() != 3 or input.rank() != 2 or weight.dim(1) != input.dim(1):
        raise poplar_error(
            f"splineWeighting: features are [edges, inputs], weights [kernel, inputs, outputs]; they are"
            f" {input.shape()} and {weight.shape()}."
        )
    if basis.rank() != 2 or basis.dim(0) != input.dim(0) or basis.shape() != weightIndex.shape():
        raise poplar_error(f"splineWeighting: splines and indices are [edges, splines], not {basis.shape()}.")

    def traced(
        features: torch.Tensor, weights: torch.Tensor, factors: torch.Tensor, places: torch.Tensor
    ) -> torch.Tensor:
        edges, splines = factors.shape
        chosen = torch.index_select(weights, 0, places.reshape(-1).to(torch.int64))
        right = chosen.reshape(edges, splines * weights.shape[1], weights.shape[2])
        left = (factors.unsqueeze(2) * features.unsqueeze(1)).reshape(edges, 1, -1)
        return torch.bmm(left, right).squeeze(1)

    operands, types = [input, weight, basis, weightIndex], [input.elementType()]
    return call_library(graph, prog, "popops::splineWeighting", traced, operands, types=types, name=name)[0]
