"""Losses. Written with plain ops: what is trained on is what the front end says, whatever losses a graph holds."""

from __future__ import annotations

import torch

from openipu.translate.rules import Results, rule
from openipu.translate.site import Site


@rule("NegativeLogLikelihoodLoss")
def negative_log_likelihood(site: Site) -> torch.Tensor:
    return _weigh_classes(site, site.input(0), site.input(1), site.optional(2))


@rule("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(site: Site) -> Results:
    logarithms = torch.log_softmax(site.input(0), 1)
    return [_weigh_classes(site, logarithms, site.input(1), site.optional(2)), logarithms]


def _weigh_classes(
    site: Site, logarithms: torch.Tensor, labels: torch.Tensor, weight: torch.Tensor | None
) -> torch.Tensor:
    ignored = site.get("ignore_index", None)
    places = labels.to(torch.int64)
    counted = torch.ones_like(places, dtype=logarithms.dtype)
    if ignored is not None:
        counted = (places != ignored).to(logarithms.dtype)
        places = torch.where(places == ignored, torch.zeros_like(places), places)
    if weight is not None:
        counted = counted * weight.index_select(0, places.reshape(-1)).reshape(places.shape)
    each = -torch.gather(logarithms, 1, places.unsqueeze(1)).squeeze(1) * counted
    reduction = site.get("reduction", "mean")
    if reduction == "none":
        return each
    return each.sum() if reduction == "sum" else each.sum() / counted.sum()
