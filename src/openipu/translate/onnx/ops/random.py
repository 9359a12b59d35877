"""Random numbers."""

from __future__ import annotations

import torch

from openipu.translate.onnx.formats import find_dtype
from openipu.translate.rules import rule
from openipu.translate.site import Site


def _dtype(site: Site, default: torch.dtype) -> torch.dtype:
    number = site.get("dtype", None)
    return default if number is None else find_dtype(number, f"the result of {site.node.title}")


@rule("RandomNormal", folds=False)
def normal(site: Site) -> torch.Tensor:
    drawn = torch.randn(site.get("shape"), dtype=_dtype(site, torch.float32))
    return drawn * site.number("scale", 1.0) + site.number("mean", 0.0)


@rule("RandomNormalLike", folds=False)
def normal_like(site: Site) -> torch.Tensor:
    x = site.input(0)
    return torch.randn_like(x, dtype=_dtype(site, x.dtype)) * site.number("scale", 1.0) + site.number("mean", 0.0)


@rule("RandomUniform", folds=False)
def uniform(site: Site) -> torch.Tensor:
    low, high = site.number("low", 0.0), site.number("high", 1.0)
    return torch.rand(site.get("shape"), dtype=_dtype(site, torch.float32)) * (high - low) + low


@rule("RandomUniformLike", folds=False)
def uniform_like(site: Site) -> torch.Tensor:
    x, low, high = site.input(0), site.number("low", 0.0), site.number("high", 1.0)
    return torch.rand_like(x, dtype=_dtype(site, x.dtype)) * (high - low) + low


@rule("Bernoulli", folds=False)
def bernoulli(site: Site) -> torch.Tensor:
    x = site.input(0)
    return (torch.rand_like(x) < x).to(_dtype(site, x.dtype))


@rule("Multinomial", folds=False)
def multinomial(site: Site) -> torch.Tensor:
    chances = torch.softmax(site.input(0), -1)
    drawn = torch.multinomial(chances, site.get("sample_size", 1), replacement=True)
    return drawn.to(_dtype(site, torch.int32))
