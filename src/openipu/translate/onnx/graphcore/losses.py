"""Losses. What a session trains on is what it is told, whatever losses a graph holds."""

from __future__ import annotations

import torch

from openipu.translate.onnx.formats import find_dtype
from openipu.translate.onnx.graphcore.domain import DOMAIN, reduce_loss
from openipu.translate.rules import Results, rule
from openipu.translate.site import Site

# Probabilities below it count as it, so that a logarithm exists.
_LEAST = {torch.float16: 6.104e-05}
_LEAST_USUAL = 1e-7


@rule("L1", domain=DOMAIN)
def absolute_loss(site: Site) -> torch.Tensor:
    x = site.input(0)
    if x.dim() == 0:
        site.fail("takes no tensor without dimensions")
    return reduce_loss(site, x.abs()) * site.number("lambda", 1.0)


@rule("IdentityLoss", domain=DOMAIN)
def own_loss(site: Site) -> torch.Tensor:
    return reduce_loss(site, site.input(0))


@rule("Nll", domain=DOMAIN)
def negative_log_likelihood(site: Site) -> torch.Tensor:
    """Of probabilities, or of their logarithms, with classes in the last dimension."""
    x, labels = site.input(0), site.input(1).to(torch.int64)
    if list(labels.shape) != list(x.shape[:-1]):
        site.fail(f"needs labels of the shape {list(x.shape[:-1])}, not {list(labels.shape)}")
    ignored = site.get("ignoreIndex", None)
    exists = (labels >= 0) & (labels < x.shape[-1])  # a label that is not a class has the probability 0
    places = torch.where(exists, labels, torch.zeros_like(labels))
    found = torch.gather(x, -1, places.unsqueeze(-1)).squeeze(-1)
    found = torch.where(exists, found, torch.zeros_like(found))
    if not site.get("inputIsLogProbability", 0):
        least = _LEAST.get(x.dtype, _LEAST_USUAL)
        # The larger of the two; its gradient stays that of the probability.
        found = torch.log(torch.where(found < least, least + (found - found.detach()), found))
    if ignored is None:
        return reduce_loss(site, -found)
    counted = (labels != ignored).to(x.dtype)
    each = -found * counted
    if site.get("reduction", "Mean") != "Mean":
        return reduce_loss(site, each)
    mean: torch.Tensor = each.sum() / torch.clamp(counted.sum(), min=1.0)  # 0 where every label is ignored
    return mean


@rule("Ctc", domain=DOMAIN)
def connectionist_loss(site: Site) -> Results:
    """Of logarithms of probabilities [time, batch, classes]. The mean first divides by the lengths of the labels."""
    logarithms, labels, lengths, label_lengths = (site.input(place) for place in range(4))
    wide = logarithms.to(torch.float32)
    each = torch.nn.functional.ctc_loss(
        wide,
        labels.to(torch.int64),
        lengths.to(torch.int64),
        label_lengths.to(torch.int64),
        blank=site.get("blank", 0),
        reduction="none",
        zero_infinity=bool(site.get("zeroInfinity", 0)),
    )
    if site.get("reduction", "Mean") == "Mean":
        each = each / torch.clamp(label_lengths.to(each.dtype), min=1.0)
    number = site.get("outDataType", 0)
    dtype = find_dtype(number, f"the result of {site.node.title}") if number else logarithms.dtype
    return [reduce_loss(site, each).to(dtype)]
