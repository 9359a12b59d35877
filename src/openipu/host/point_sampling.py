"""Farthest point sampling: from each cloud, points that lie far from each other.

In: points [points, features], the bounds of each cloud, the share to take. Out: indices of the points, cloud by cloud.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch


def count_samples(bounds: Sequence[int], ratio: float) -> list[int]:
    """How many points are taken from each cloud."""
    # In float32, as on the device: in float64, 0.7 * 10 is a little more than 7, and 8 points would be taken.
    sizes = torch.tensor([end - start for start, end in pairwise(bounds)], dtype=torch.float32, device="cpu")
    share = torch.tensor(ratio, dtype=torch.float32, device="cpu")
    return [int(count) for count in torch.ceil(sizes * share).tolist()]


def sample_farthest(points: torch.Tensor, bounds: Sequence[int], ratio: float, random_start: bool) -> torch.Tensor:
    """Indices, int64: the first point of a cloud or a random one, then always the one farthest from those taken."""
    flat = points.reshape(points.shape[0], -1)
    chosen: list[int] = []
    for (start, end), count in zip(pairwise(bounds), count_samples(bounds, ratio), strict=True):
        cloud = flat[start:end]
        if not count:
            continue
        current = int(torch.randint(end - start, ())) if random_start else 0
        distances = torch.full((end - start,), math.inf, dtype=flat.dtype)
        for _ in range(count):
            chosen.append(start + current)
            distances = torch.minimum(distances, (cloud - cloud[current]).square().sum(1))
            current = int(distances.argmax())
    return torch.tensor(chosen, dtype=torch.int64)
