"""Classes that are drawn for a loss over some of many: with what is expected of each."""

from __future__ import annotations

import math

import torch

from openipu.capture import on_host
from openipu.translate.kit.seeded import LIMIT, make_bits
from openipu.translate.rules import Results, rule
from openipu.translate.site import Site

Tensor = torch.Tensor
_STEPS = 60  # of a bisection: beyond the last bit of a double


@rule("UniformCandidateSampler", folds=False)
def sample_evenly(site: Site) -> Results:
    return _sample(site, logarithmic=False)


@rule("LogUniformCandidateSampler", folds=False)
def sample_by_rank(site: Site) -> Results:
    """Class c with the probability (log(c + 2) - log(c + 1)) / log(classes + 1)."""
    return _sample(site, logarithmic=True)


def _sample(site: Site, logarithmic: bool) -> Results:
    count, classes = int(site.get("num_sampled")), int(site.get("range_max"))
    unique = bool(site.get("unique"))
    site.check_size([classes])
    if unique and count > classes:
        site.fail(f"draws {count} different classes out of {classes}")
    if unique:
        shares = _list_shares(classes, logarithmic)
        keys = torch.log(shares) - torch.log(-torch.log(_draw(site, classes)))  # the largest of them are such a draw
        sampled = torch.topk(keys, count).indices
        tries = _count_tries(classes, count, logarithmic)
    else:
        drawn = _draw(site, count)
        placed = torch.exp(drawn * math.log(classes + 1)) - 1 if logarithmic else drawn * classes
        sampled = placed.floor().clamp(0, classes - 1).to(torch.int64)
        tries = float(count)
    expected = [
        _expect(_share_of(places.to(torch.float32), classes, logarithmic), tries, unique)
        for places in (site.input(0), sampled)
    ]
    return [sampled.to(torch.int64), *expected]


def _draw(site: Site, count: int) -> Tensor:
    """Numbers between 0 and 1, both left out: the same in every run where the op has a seed."""
    seeds = [int(site.get("seed", 0)), int(site.get("seed2", 0))]
    if not any(seeds):
        return torch.rand(count, dtype=torch.float32).clamp(1e-7, 1 - 1e-7)
    with on_host():
        fixed = (make_bits(torch.tensor(seeds, dtype=torch.int64).to(torch.int32), [count]) + 0.5) / LIMIT
        fixed = fixed.to(torch.float32).clamp(1e-7, 1 - 1e-7)
    return fixed if site.lift is None else site.lift(fixed)


def _share_of(places: Tensor, classes: int, logarithmic: bool) -> Tensor:
    if not logarithmic:
        return torch.full_like(places, 1 / classes)
    return (torch.log(places + 2) - torch.log(places + 1)) / math.log(classes + 1)


def _list_shares(classes: int, logarithmic: bool) -> Tensor:
    return _share_of(torch.arange(classes, dtype=torch.float32), classes, logarithmic)


def _expect(shares: Tensor, tries: float, unique: bool) -> Tensor:
    """How often a class is drawn, on average."""
    return -torch.expm1(tries * torch.log1p(-shares)) if unique else shares * tries


def _count_tries(classes: int, count: int, logarithmic: bool) -> float:
    """Draws until so many different classes have come, on average: by bisection."""
    with on_host():
        shares = _list_shares(classes, logarithmic).to(torch.float64)
        low, high = float(count), float(count)
        while float(_expect(shares, high, True).sum()) < count * (1 - 1e-9) and high < 1e9:
            high *= 2
        for _ in range(_STEPS):
            middle = (low + high) / 2
            enough = float(_expect(shares, middle, True).sum()) >= count
            low, high = (low, middle) if enough else (middle, high)
    return high
