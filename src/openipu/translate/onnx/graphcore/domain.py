"""The domain, and how its ops say that they reduce a loss."""

from __future__ import annotations

import torch

from openipu.translate.site import Site

DOMAIN = "ai.graphcore"


def reduce_loss(site: Site, each: torch.Tensor) -> torch.Tensor:
    """A loss as its `reduction` says: Mean, Sum or None. The mean counts every element."""
    reduction = site.get("reduction", "Mean")
    if reduction == "None":
        return each
    if reduction not in ("Mean", "Sum"):
        site.fail(f"has the unknown reduction {reduction!r}: Mean, Sum and None are known")
    if reduction == "Sum":
        return each.sum(dtype=each.dtype)
    if each.dtype.is_floating_point:
        return each.mean()
    return torch.div(each.sum(dtype=each.dtype), each.numel(), rounding_mode="trunc")
