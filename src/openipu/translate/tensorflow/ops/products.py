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
    a, b = a.transpose(-1, -2) if flip_a else a, b.transpose(-1, -2) if flip_b else b
    bias = site.optional(2)  # where one is added to the result (`fusing.py`)
    return torch.matmul(a, b) if bias is None else torch.addmm(bias, a, b)


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
