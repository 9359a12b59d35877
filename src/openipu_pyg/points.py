"""Neighbours of points in space.

In: points and those that look for neighbours, both with the example that each belongs to. Out: pairs, as PyTorch
Geometric's functions of the same names return them: who looks first, whom it finds second. All distances are computed,
which is right for molecules and slow for clouds of many thousand points.
"""

from __future__ import annotations

import torch

from openipu_pyg.devices import is_on_ipu

Optional = torch.Tensor | None


def radius(
    x: torch.Tensor,
    y: torch.Tensor,
    r: float,
    batch_x: Optional = None,
    batch_y: Optional = None,
    max_num_neighbors: int | None = 32,
    num_workers: int = 1,
    batch_size: int | None = None,
    *,
    exclude_self: bool = False,
) -> torch.Tensor:
    """For each point of `y`, those of `x` within `r`: the nearest, where there are more than wanted."""
    distances = _measure(x, y, batch_x, batch_y)
    if exclude_self:
        distances.fill_diagonal_(torch.inf)
    near = distances <= r
    if max_num_neighbors is not None and max_num_neighbors < near.size(1):
        rank = distances.argsort(dim=1, stable=True).argsort(dim=1)
        near &= rank < max_num_neighbors
    return near.nonzero().t()


def radius_graph(
    x: torch.Tensor,
    r: float,
    batch: Optional = None,
    loop: bool = False,
    max_num_neighbors: int | None = 32,
    flow: str = "source_to_target",
    num_workers: int = 1,
    batch_size: int | None = None,
) -> torch.Tensor:
    """Edges between points within `r` of each other."""
    pairs = radius(x, x, r, batch, batch, max_num_neighbors, exclude_self=not loop)
    return _direct(pairs, flow)


def knn(
    x: torch.Tensor,
    y: torch.Tensor,
    k: int,
    batch_x: Optional = None,
    batch_y: Optional = None,
    cosine: bool = False,
    num_workers: int = 1,
    batch_size: int | None = None,
    *,
    exclude_self: bool = False,
) -> torch.Tensor:
    """For each point of `y`, the `k` nearest of `x`; fewer where its example has no more. While a static graph is made
    of it there are no values to see that by, and every example is taken to have enough."""
    distances = _measure(x, y, batch_x, batch_y, cosine)
    if exclude_self:
        distances = distances.masked_fill(torch.eye(len(y), dtype=torch.bool, device=x.device), torch.inf)
    nearest = distances.topk(min(k, distances.size(1)), largest=False)
    seeker = torch.arange(len(y), device=x.device)[:, None].expand_as(nearest.indices)
    if is_on_ipu(x):
        return torch.stack([seeker.flatten(), nearest.indices.flatten()])
    found = nearest.values.isfinite()
    return torch.stack([seeker[found], nearest.indices[found]])


def knn_graph(
    x: torch.Tensor,
    k: int,
    batch: Optional = None,
    loop: bool = False,
    flow: str = "source_to_target",
    cosine: bool = False,
    num_workers: int = 1,
    batch_size: int | None = None,
) -> torch.Tensor:
    """Edges from the `k` nearest points of each."""
    pairs = knn(x, x, k, batch, batch, cosine, exclude_self=not loop)
    return _direct(pairs, flow)


def _direct(pairs: torch.Tensor, flow: str) -> torch.Tensor:
    if flow not in ("source_to_target", "target_to_source"):
        raise AssertionError(f"flow is source_to_target or target_to_source, not {flow!r}.")
    return pairs.flip([0]) if flow == "source_to_target" else pairs


def _measure(
    x: torch.Tensor, y: torch.Tensor, batch_x: Optional, batch_y: Optional, cosine: bool = False
) -> torch.Tensor:
    """Distances from each of `y` to each of `x`; infinite where they belong to different examples."""
    x, y = (points[:, None] if points.dim() == 1 else points for points in (x, y))
    if cosine:
        distances = 1 - torch.nn.functional.cosine_similarity(y[:, None], x[None], dim=2)
    else:
        distances = (y[:, None] - x[None]).square().sum(dim=2).sqrt()
    if batch_x is None and batch_y is None:
        return distances
    of_x = torch.zeros(len(x), dtype=torch.long, device=x.device) if batch_x is None else batch_x
    of_y = torch.zeros(len(y), dtype=torch.long, device=y.device) if batch_y is None else batch_y
    return distances.masked_fill(of_y[:, None] != of_x[None], torch.inf)
