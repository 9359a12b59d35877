"""Ops on clouds of points: `fps` and `nearest`."""

from __future__ import annotations

import torch

from openipu.capture import call_in_graph, is_capturing
from openipu.graph import FunctionCall
from openipu.host.point_sampling import count_samples, sample_farthest
from poptorch.errors import createPoptorchError
from poptorch.ops._checks import require_tensor

Batch = list[int] | torch.Tensor | None


def fps(src: torch.Tensor, ptr: list[int], ratio: float = 0.5, random_start: bool = False) -> torch.Tensor:
    """Farthest point sampling: indices of the points taken from each of the clouds `src[ptr[i] : ptr[i + 1]]`."""
    require_tensor(src, "`fps` must take a torch.tensor input.")
    if not isinstance(ptr, list):
        raise createPoptorchError("`ptr` must be a list of integers.")
    if len(ptr) < 2:
        raise createPoptorchError("`ptr` must contain at least 2 elements.")
    if not isinstance(ratio, float):
        raise createPoptorchError(f"`ratio` must be of float type. {type(ratio)} is not supported.")
    if not isinstance(random_start, bool):
        raise createPoptorchError(f"`random_start` must be of bool type. {type(random_start)} is not supported.")
    if ptr != sorted(ptr) or ptr[0] < 0 or ptr[-1] > src.shape[0]:
        raise createPoptorchError(f"`ptr` must rise from 0 to the number of points ({src.shape[0]}), not {ptr}.")

    def sample(points: torch.Tensor) -> list[torch.Tensor]:
        return [sample_farthest(points, ptr, ratio, random_start)]

    if not is_capturing():
        return sample(src)[0]
    result = torch.empty((sum(count_samples(ptr, ratio)),), dtype=torch.int64, device="meta")
    return call_in_graph(FunctionCall("fps", sample, draws=random_start), [src], [result])[0]


def nearest(x: torch.Tensor, y: torch.Tensor, batch_x: Batch = None, batch_y: Batch = None) -> torch.Tensor:
    """For each point of `x`, the index of the point of `y` that lies nearest, among those of the same batch."""
    require_tensor(x, "`nearest` must take a torch.tensor `x` input.")
    require_tensor(y, "`nearest` must take a torch.tensor `y` input.")
    points, queries = x.reshape(x.shape[0], -1), y.reshape(y.shape[0], -1)
    distances = (points.unsqueeze(1) - queries.unsqueeze(0)).square().sum(-1)
    first, second = _read_batch(batch_x, x), _read_batch(batch_y, y)
    if first is not None or second is not None:
        zeros = torch.zeros((1,), dtype=torch.int64, device=x.device)
        apart = (zeros if first is None else first).unsqueeze(1) != (zeros if second is None else second).unsqueeze(0)
        distances = distances.masked_fill(apart, float("inf"))
    return distances.argmin(1)


def _read_batch(batch: Batch, points: torch.Tensor) -> torch.Tensor | None:
    if batch is None or (isinstance(batch, list) and not batch):
        return None
    if not isinstance(batch, list | torch.Tensor):
        raise createPoptorchError(
            f"`batch_x` and `batch_y` must be torch.Tensors or lists while one is of type {type(batch)}."
        )
    if len(batch) != points.shape[0]:
        raise createPoptorchError(f"A batch of {len(batch)} entries does not fit {points.shape[0]} points.")
    return batch if isinstance(batch, torch.Tensor) else torch.tensor(batch, device=points.device)
