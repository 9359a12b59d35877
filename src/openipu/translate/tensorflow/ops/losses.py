"""Cross entropies, which come with their gradient."""

from __future__ import annotations

import math

import torch

from openipu.translate.rules import rule
from openipu.translate.site import Site

Tensor = torch.Tensor


@rule("SoftmaxCrossEntropyWithLogits")
def cross_entropy(site: Site) -> list[Tensor]:
    scores, labels = site.input(0), site.input(1)
    if scores.shape != labels.shape:
        scores, labels = scores + torch.zeros_like(labels), labels + torch.zeros_like(scores)
    log = torch.log_softmax(scores, -1)
    return [-(labels * log).sum(-1), torch.exp(log) - labels]


@rule("SparseSoftmaxCrossEntropyWithLogits")
def sparse_cross_entropy(site: Site) -> list[Tensor]:
    scores, labels = site.input(0), site.input(1).to(torch.int64)
    log = torch.log_softmax(scores, -1)
    hit = labels.unsqueeze(-1) == torch.arange(scores.shape[-1], dtype=torch.int64)
    known = (labels >= 0) & (labels < scores.shape[-1])
    wrong = torch.where(known, 0.0, math.nan).to(
        log.dtype
    )  # a label of no class gives NaN, as compiled TensorFlow has it
    loss = wrong - log.gather(-1, torch.where(known, labels, 0).unsqueeze(-1)).squeeze(-1)
    return [loss, torch.exp(log) - hit.to(log.dtype) + wrong.unsqueeze(-1)]
