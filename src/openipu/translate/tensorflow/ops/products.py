"""Matrix products and einsum."""

from __future__ import annotations

import torch

from openipu.translate.rules import rule
from openipu.translate.site import Site

Tensor = torch.Tensor


@rule("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def multiply(site: Site) -> Tensor:
    a, b = site.input(0), site.input(1)
    flip_a = site.get("transpose_a", False) or site.get("adj_x", False)
    flip_b = site.get("transpose_b", False) or site.get("adj_y", False)
    return torch.matmul(a.transpose(-1, -2) if flip_a else a, b.transpose(-1, -2) if flip_b else b)


@rule("Einsum")
def einsum(site: Site) -> Tensor:
    return torch.einsum(str(site.get("equation")), *(site.input(place) for place in range(site.count)))


@rule("MatrixDiagPartV3", "MatrixDiagPart")
def diagonal(site: Site) -> Tensor:
    if site.has(1) and site.numbers(1, "diagonal") != [0]:
        site.fail("takes another diagonal than the main one")
    return site.input(0).diagonal(dim1=-2, dim2=-1)


@rule("MatrixBandPart", static=(1, 2))
def band(site: Site) -> Tensor:
    x, below, above = site.input(0), site.numbers(1, "band")[0], site.numbers(2, "band")[0]
    x = x if below < 0 else x.triu(-below)
    return x if above < 0 else x.tril(above)


@rule("Cross")
def cross(site: Site) -> Tensor:
    found: Tensor = torch.linalg.cross(site.input(0), site.input(1))
    return found
