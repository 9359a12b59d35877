"""Boxes in images: which of them remain."""

from __future__ import annotations

import torch

from openipu.translate.rules import rule
from openipu.translate.site import Site


@rule("NonMaxSuppression", static=(0, 1, 2, 3, 4))
def suppress(site: Site) -> torch.Tensor:
    """How many boxes remain depends on their values, so those must be constants of the program."""
    boxes, scores = site.value(0, "boxes").double(), site.value(1, "scores").double()
    most = site.numbers(2, "most boxes of a class")[0] if site.has(2) else 0
    overlap = float(site.value(3, "largest overlap")) if site.has(3) else 0.0
    least = float(site.value(4, "smallest score")) if site.has(4) else None
    corners = _find_corners(boxes, centred=bool(site.get("center_point_box", 0)))
    found = [
        [batch, label, box]
        for batch in range(scores.shape[0])
        for label in range(scores.shape[1])
        for box in _choose(corners[batch], scores[batch, label], most, overlap, least)
    ]
    return torch.tensor(found, dtype=torch.int64).reshape(-1, 3)


def _find_corners(boxes: torch.Tensor, *, centred: bool) -> torch.Tensor:
    """The lower and the upper corner of each box."""
    first, second = boxes[..., :2], boxes[..., 2:]
    if centred:
        first, second = first - second / 2, first + second / 2
    return torch.cat((torch.minimum(first, second), torch.maximum(first, second)), -1)


def _choose(corners: torch.Tensor, scores: torch.Tensor, most: int, overlap: float, least: float | None) -> list[int]:
    chosen: list[int] = []
    for box in torch.argsort(scores, descending=True, stable=True).tolist():
        if len(chosen) >= most or (least is not None and float(scores[box]) <= least):
            break
        if all(_find_overlap(corners[box], corners[other]) <= overlap for other in chosen):
            chosen.append(int(box))
    return chosen


def _find_overlap(one: torch.Tensor, other: torch.Tensor) -> float:
    """The common area of two boxes as a share of what both cover."""
    sides = torch.clamp(torch.minimum(one[2:], other[2:]) - torch.maximum(one[:2], other[:2]), min=0)
    common = float(sides.prod())
    covered = float((one[2:] - one[:2]).prod() + (other[2:] - other[:2]).prod()) - common
    return common / covered if covered > 0 else 0.0
