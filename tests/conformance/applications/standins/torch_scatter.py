"""Stands in for torch_scatter, which has no wheel for this torch: reductions by index, from PyTorch's own ops."""

from __future__ import annotations

import torch


def scatter_sum(
    src: torch.Tensor,
    index: torch.Tensor,
    dim: int = -1,
    out: torch.Tensor | None = None,
    dim_size: int | None = None,
) -> torch.Tensor:
    """out[..., index[i], ...] += src[..., i, ...] along `dim`, as long as `dim_size` or the largest index says."""
    dim = dim % src.dim()
    if index.dim() == 1:
        index = index.view([-1 if place == dim else 1 for place in range(src.dim())])
    index = index.expand_as(src)
    if out is None:
        shape = list(src.shape)
        shape[dim] = int(index.max()) + 1 if dim_size is None else dim_size
        out = torch.zeros(shape, dtype=src.dtype, device=src.device)
    return out.scatter_add(dim, index, src)


def scatter_mean(
    src: torch.Tensor,
    index: torch.Tensor,
    dim: int = -1,
    out: torch.Tensor | None = None,
    dim_size: int | None = None,
) -> torch.Tensor:
    """The same with means; 0 where nothing is added."""
    total = scatter_sum(src, index, dim, out, dim_size)
    count = scatter_sum(torch.ones_like(src), index, dim, None, total.size(dim)).clamp(min=1)
    return total / count if total.is_floating_point() else total.div(count, rounding_mode="floor")


def scatter(
    src: torch.Tensor,
    index: torch.Tensor,
    dim: int = -1,
    out: torch.Tensor | None = None,
    dim_size: int | None = None,
    reduce: str = "sum",
) -> torch.Tensor:
    """The same with sum, mean, min, max or mul."""
    if reduce in ("sum", "add", "mean"):
        return (scatter_mean if reduce == "mean" else scatter_sum)(src, index, dim, out, dim_size)
    dim = dim % src.dim()
    if index.dim() == 1:
        index = index.view([-1 if place == dim else 1 for place in range(src.dim())])
    index = index.expand_as(src)
    if out is None:
        shape = list(src.shape)
        shape[dim] = int(index.max()) + 1 if dim_size is None else dim_size
        out = torch.full(shape, 1.0 if reduce == "mul" else 0.0, dtype=src.dtype, device=src.device)
        return out.scatter_reduce(
            dim, index, src, {"mul": "prod"}.get(reduce, f"a{reduce}"), include_self=reduce == "mul"
        )
    return out.scatter_reduce(dim, index, src, {"mul": "prod"}.get(reduce, f"a{reduce}"), include_self=True)


scatter_add = scatter_sum
