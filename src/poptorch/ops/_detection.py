"""`Nms` of the public detectors: non-maximum suppression with a fixed number of detections, as a loop of the device.

In: scores [batch, boxes, classes], boxes [batch, boxes, 4] as (left, top, right, bottom), and the op's attributes. Out:
indices, scores, boxes and classes of the detections, best first, and how many of them there are in each image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from openipu.capture import capture_loop, is_capturing
from poptorch.errors import createPoptorchError

NO_INDEX = -1
NO_CLASS = torch.iinfo(torch.int32).max  # of places after the last detection


def suppress_overlaps(inputs: Sequence[torch.Tensor], attributes: Mapping[str, Any]) -> list[torch.Tensor]:
    """Each turn takes the best score above `scoreThreshold` of each image, and drops what overlaps its box by more than
    `threshold` in its class (or, with a `sigma`, weakens it).

    The C++ op leaves the loop early; here, as in the plan, it takes all of its `numDetections` turns.
    """
    if len(inputs) != 2 or inputs[0].dim() != 3 or inputs[1].shape != (*inputs[0].shape[:2], 4):
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in inputs)
        raise createPoptorchError(
            f"Nms takes scores [batch, boxes, classes] and boxes [batch, boxes, 4], not tensors of {shapes}."
        )
    scores, boxes = (tensor.detach() for tensor in inputs)
    count = int(attributes.get("numDetections", 100))
    if count < 1:
        raise createPoptorchError(f"Nms needs numDetections of at least 1, not {count}.")
    overlap = float(attributes.get("threshold", 0.5))
    least = float(attributes.get("scoreThreshold", torch.finfo(scores.dtype).min))
    sigma = float(attributes.get("sigma", 0.0))
    kinds = torch.arange(scores.shape[2], device=scores.device)
    places = torch.arange(count, dtype=torch.int32, device=scores.device)

    def take_best(
        turn: torch.Tensor,
        left: torch.Tensor,
        indices: torch.Tensor,
        best_scores: torch.Tensor,
        best_boxes: torch.Tensor,
        classes: torch.Tensor,
        lengths: torch.Tensor,
    ) -> list[torch.Tensor]:
        score, place = left.flatten(1).max(1)
        index, kind = place // kinds.numel(), place % kinds.numel()
        box = boxes.gather(1, index[:, None, None].expand(-1, 1, 4))
        good = score > least
        here = good[:, None] & (places == turn)
        share = _share_areas(boxes, box)[:, :, None]
        touched = (kinds == kind[:, None])[:, None] & (left > least) & good[:, None, None]
        if sigma:
            left = torch.where(touched, (left * torch.exp(-share * share / sigma)).to(left.dtype), left)
        else:
            left = left.masked_fill(touched & (share > overlap), lowest)
        return [
            turn + 1,
            left.flatten(1).scatter(1, place[:, None], lowest).view_as(left),
            torch.where(here, index[:, None].int(), indices),
            torch.where(here, score[:, None], best_scores),
            torch.where(here[:, :, None], box, best_boxes),
            torch.where(here, kind[:, None].int(), classes),
            lengths + good.int(),
        ]

    lowest = torch.finfo(scores.dtype).min
    state = [torch.zeros(1, dtype=torch.int32, device=scores.device), scores, *_start(scores, boxes, count)]
    if is_capturing():
        state = capture_loop(count, take_best, state)
    else:
        for _ in range(count):
            state = take_best(*state)
    return state[2:]


def _share_areas(boxes: torch.Tensor, box: torch.Tensor) -> torch.Tensor:
    """What part of the area that two boxes cover together they have in common."""
    boxes, box = boxes.float(), box.float()
    sides = torch.minimum(boxes[..., 2:], box[..., 2:]) - torch.maximum(boxes[..., :2], box[..., :2])
    common = sides.clamp(min=0).prod(-1)
    return common / ((boxes[..., 2:] - boxes[..., :2]).prod(-1) + (box[..., 2:] - box[..., :2]).prod(-1) - common)


def _start(scores: torch.Tensor, boxes: torch.Tensor, count: int) -> list[torch.Tensor]:
    """Results without any detection."""
    batch, device = scores.shape[0], scores.device
    return [
        torch.full((batch, count), NO_INDEX, dtype=torch.int32, device=device),
        torch.zeros((batch, count), dtype=scores.dtype, device=device),
        torch.zeros((batch, count, 4), dtype=boxes.dtype, device=device),
        torch.full((batch, count), NO_CLASS, dtype=torch.int32, device=device),
        torch.zeros((batch,), dtype=torch.int32, device=device),
    ]
