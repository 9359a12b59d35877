"""Cross entropies and connectionist temporal classification, which come with their gradient."""

from __future__ import annotations

import math

import torch

from openipu.capture import call_in_graph, is_capturing
from openipu.graph import FunctionCall
from openipu.host.beam_search import search_beams
from openipu.translate.rules import Results, rule
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
    wrong = torch.where(known, 0.0, math.nan).to(log.dtype)  # a label of no class gives NaN, as on an IPU
    loss = wrong - log.gather(-1, torch.where(known, labels, 0).unsqueeze(-1)).squeeze(-1)
    return [loss, torch.exp(log) - hit.to(log.dtype) + wrong.unsqueeze(-1)]


@rule("IpuCtcLossWithLogProbs", folds=False)
def temporal_classification(site: Site) -> Results:
    """The loss of each sequence, and its slope. The slope is that of the logits behind the logarithms, as the original
    gives it: a log-softmax before it passes it on unchanged."""
    labels, lengths, label_lengths = (site.input(place).to(torch.int64) for place in (0, 3, 2))
    logarithms = site.input(1)
    wide, blank = logarithms.to(torch.float32), int(site.get("blank"))
    each, states = torch.ops.aten._ctc_loss.Tensor(wide, labels, lengths, label_lengths, blank, False)
    slope = torch.ops.aten._ctc_loss_backward.Tensor(
        torch.ones_like(each), wide, labels, lengths, label_lengths, each, states, blank, False
    )
    return [each, slope.to(logarithms.dtype)]


@rule("IpuCtcBeamSearch", folds=False)
def search_labels(site: Site) -> Results:
    logarithms, lengths = site.input(0), site.input(1)
    blank, width, paths = (int(site.get(name)) for name in ("blank", "beam_width", "top_paths"))

    def search(values: torch.Tensor, sizes: torch.Tensor) -> list[torch.Tensor]:
        return search_beams(values, sizes, blank, width, paths)

    if not is_capturing():
        return search(logarithms, lengths)
    steps, samples, _ = logarithms.shape
    results = [
        torch.empty((samples, paths), dtype=logarithms.dtype, device="meta"),
        torch.empty((samples, paths), dtype=torch.int32, device="meta"),
        torch.empty((samples, paths, steps), dtype=torch.int32, device="meta"),
    ]
    return call_in_graph(FunctionCall("ctc_beam_search_decoder", search), [logarithms, lengths], results)
