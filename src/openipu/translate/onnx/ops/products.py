"""Matrix products, convolutions, attention, Fourier transforms."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812

from openipu.translate.kit.padding import find_same_pads, pad_edges
from openipu.translate.rules import rule
from openipu.translate.site import Site


@rule("MatMul")
def matmul(site: Site) -> torch.Tensor:
    return torch.matmul(site.input(0), site.input(1))


@rule("Gemm")
def gemm(site: Site) -> torch.Tensor:
    left = site.input(0).t() if site.get("transA", 0) else site.input(0)
    right = site.input(1).t() if site.get("transB", 0) else site.input(1)
    alpha, beta, bias = site.get("alpha", 1.0), site.get("beta", 1.0), site.optional(2)
    if not left.dtype.is_floating_point:
        alpha, beta = int(alpha), int(beta)
    if bias is not None and alpha == 1 and beta == 1 and bias.dim() == 1 and left.dtype.is_floating_point:
        return torch.addmm(bias, left, right)
    product = torch.matmul(left, right)
    product = product if alpha == 1 else product * alpha
    return product if bias is None else product + (bias if beta == 1 else bias * beta)


@rule("Einsum")
def einsum(site: Site) -> torch.Tensor:
    return torch.einsum(site.get("equation"), *[site.input(position) for position in range(site.count)])


@rule("Det")
def determinant(site: Site) -> torch.Tensor:
    result: torch.Tensor = torch.linalg.det(site.input(0))
    return result


@rule("Conv")
def convolution(site: Site) -> torch.Tensor:
    x, weight, bias = site.input(0), site.input(1), site.optional(2)
    rank = x.dim() - 2
    kernel = list(weight.shape[2:])
    strides, dilations = site.get("strides", [1] * rank), site.get("dilations", [1] * rank)
    pads = read_pads(site, list(x.shape[2:]), kernel, strides, dilations)
    before, behind = pads[:rank], pads[rank:]
    if before != behind:
        x = pad_edges(x, [0, 0, *before, 0, 0, *behind], "constant", 0.0)
        before = [0] * rank
    return torch.convolution(x, weight, bias, strides, before, dilations, False, [0] * rank, site.get("group", 1))


@rule("ConvTranspose")
def transposed_convolution(site: Site) -> torch.Tensor:
    x, weight, bias = site.input(0), site.input(1), site.optional(2)
    rank = x.dim() - 2
    kernel = list(weight.shape[2:])
    strides, dilations = site.get("strides", [1] * rank), site.get("dilations", [1] * rank)
    extra = site.get("output_padding", [0] * rank)
    # Without pads: every window whole. Then the edges are cut off.
    full = torch.convolution(x, weight, None, strides, [0] * rank, dilations, True, [0] * rank, site.get("group", 1))
    whole = [
        (size - 1) * stride + dilation * (width - 1) + 1 + more
        for size, stride, dilation, width, more in zip(x.shape[2:], strides, dilations, kernel, extra, strict=True)
    ]
    pads = _find_transposed_pads(site, list(x.shape[2:]), whole, strides)
    behind = [-pads[rank + axis] + extra[axis] for axis in range(rank)]
    before = [-pads[axis] for axis in range(rank)]
    result = pad_edges(full, [0, 0, *before, 0, 0, *behind], "constant", 0.0)
    return result if bias is None else result + bias.reshape(-1, *[1] * rank)


def _find_transposed_pads(site: Site, sizes: list[int], whole: list[int], strides: list[int]) -> list[int]:
    wanted = site.get("output_shape", None)
    mode = site.get("auto_pad", "NOTSET")
    if wanted is None and mode in ("NOTSET", ""):
        return list(site.get("pads", [0] * (2 * len(sizes))))
    if mode == "VALID":
        return [0] * (2 * len(sizes))
    if wanted is None:
        wanted = [size * stride for size, stride in zip(sizes, strides, strict=True)]
    wanted = wanted[-len(sizes) :]
    totals = [have - want for have, want in zip(whole, wanted, strict=True)]
    small = [total // 2 for total in totals]
    large = [total - half for total, half in zip(totals, small, strict=True)]
    return [*small, *large] if mode == "SAME_UPPER" else [*large, *small]


def read_pads(site: Site, sizes: list[int], kernel: list[int], strides: list[int], dilations: list[int]) -> list[int]:
    """Pads of a window op: given, or found so that results are as many as "same" means."""
    mode = site.get("auto_pad", "NOTSET")
    if mode in ("NOTSET", ""):
        return list(site.get("pads", [0] * (2 * len(sizes))))
    if mode == "VALID":
        return [0] * (2 * len(sizes))
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        site.fail(f"has the unknown auto_pad {mode!r}")
    return find_same_pads(sizes, kernel, strides, dilations, lower=mode == "SAME_LOWER")


@rule("DeformConv")
def deformable_convolution(site: Site) -> torch.Tensor:
    x, weight, offsets, bias, mask = (*(site.input(place) for place in range(3)), site.optional(3), site.optional(4))
    strides, dilations = site.get("strides", [1, 1]), site.get("dilations", [1, 1])
    pads, groups, offset_groups = site.get("pads", [0] * 4), site.get("group", 1), site.get("offset_group", 1)
    batch, channels, height, width = x.shape
    rows, columns = weight.shape[2:]
    out_rows, out_columns = offsets.shape[2:]
    offset = offsets.reshape(batch, offset_groups, rows * columns, 2, out_rows, out_columns)
    top = torch.arange(out_rows) * strides[0] - pads[0]
    left = torch.arange(out_columns) * strides[1] - pads[1]
    down = (torch.arange(rows) * dilations[0]).repeat_interleave(columns)
    across = (torch.arange(columns) * dilations[1]).repeat(rows)
    y = offset[:, :, :, 0] + (down[:, None, None] + top[None, :, None]).to(x.dtype)
    z = offset[:, :, :, 1] + (across[:, None, None] + left[None, None, :]).to(x.dtype)
    parts = x.reshape(batch * offset_groups, channels // offset_groups, height, width)
    grid = torch.stack(((2 * z + 1) / width - 1, (2 * y + 1) / height - 1), -1)
    grid = grid.reshape(batch * offset_groups, rows * columns * out_rows, out_columns, 2)
    found = F.grid_sample(parts, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    found = found.reshape(batch, offset_groups, -1, rows * columns, out_rows, out_columns)
    if mask is not None:
        found = found * mask.reshape(batch, offset_groups, 1, rows * columns, out_rows, out_columns)
    found = found.reshape(batch, groups, channels // groups * rows * columns, out_rows * out_columns)
    matrix = weight.reshape(groups, weight.shape[0] // groups, -1)
    result = torch.matmul(matrix, found).reshape(batch, -1, out_rows, out_columns)
    return result if bias is None else result + bias.reshape(-1, 1, 1)
