"""Random numbers. They come from openipu's generators, and so differ from TensorFlow's for the same seed."""

from __future__ import annotations

import math

import torch

from openipu.capture import on_host
from openipu.translate.kit.seeded import LIMIT, draw_seed, make_bits
from openipu.translate.rules import Results, rule
from openipu.translate.site import Site

Tensor = torch.Tensor
_DIGITS = {torch.float16: 11, torch.bfloat16: 8}  # binary ones of a number below 1; 24 of others
_EDGE = math.erf(2 / math.sqrt(2))  # of a normal distribution cut off at two deviations


def _read_shape(site: Site) -> list[int]:
    sizes = site.numbers(0, "shape")
    site.check_size(sizes)
    return sizes


def _find_dtype(site: Site) -> torch.dtype:
    found: torch.dtype = site.get("dtype", torch.float32)
    return found


def _draw(site: Site, dtype: torch.dtype | None = None) -> Tensor:
    """Numbers from 0 up to 1: from the program's generator, or of the seed that a stateless op is given."""
    shape, wanted = _read_shape(site), dtype or _find_dtype(site)
    if not site.node.op.startswith("Stateless") or not site.has(1):
        return torch.rand(shape, dtype=wanted)
    # a seed of two numbers, or the key and the counter that were made of it
    seed = (
        torch.cat([site.input(1).reshape(-1), site.input(2).reshape(-1)])
        if site.node.op.endswith("V2")
        else site.input(1)
    )
    digits = _DIGITS.get(wanted, 24)
    return torch.bitwise_right_shift(make_bits(seed, shape), 31 - digits).to(wanted) * 0.5**digits


@rule("RandomUniform", "StatelessRandomUniform", "StatelessRandomUniformV2", static=(0,), folds=False)
def uniform(site: Site) -> Tensor:
    return _draw(site)


@rule("RandomStandardNormal", "StatelessRandomNormal", "StatelessRandomNormalV2", static=(0,), folds=False)
def normal(site: Site) -> Tensor:
    if not site.node.op.startswith("Stateless") or not site.has(1):
        return torch.randn(_read_shape(site), dtype=_find_dtype(site))
    middle = _draw(site, torch.float32) * 2 - (1 - 0.5**24)  # between -1 and 1, and neither
    return (torch.erfinv(middle) * math.sqrt(2)).to(_find_dtype(site))


@rule("TruncatedNormal", "StatelessTruncatedNormal", "StatelessTruncatedNormalV2", static=(0,), folds=False)
def truncated_normal(site: Site) -> Tensor:
    return torch.erfinv((_draw(site) * 2 - 1) * _EDGE) * math.sqrt(2)


@rule("RandomUniformInt", static=(0, 1, 2), folds=False)
def whole_numbers(site: Site) -> Tensor:
    return _draw_whole(site, 1, 2)


@rule("StatelessRandomUniformInt", static=(0, 2, 3), folds=False)
def stateless_whole_numbers(site: Site) -> Tensor:
    return _draw_whole(site, 2, 3)


@rule("StatelessRandomUniformIntV2", static=(0, 4, 5), folds=False)
def keyed_whole_numbers(site: Site) -> Tensor:
    return _draw_whole(site, 4, 5)


def _draw_whole(site: Site, low: int, high: int) -> Tensor:
    least, limit = site.numbers(low, "least")[0], site.numbers(high, "limit")[0]
    drawn = _draw(site, torch.float32) * (limit - least)
    return (drawn.floor() + least).clamp(max=limit - 1).to(site.value(low, "least").dtype)


@rule("StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg", folds=False)
def make_key(site: Site) -> Results:
    """The two numbers of a seed, as the key and the counter that other ops are given. Nobody reads those of a seed
    that was dropped."""
    if site.has(0):
        seed = site.input(0).reshape(-1).to(torch.int64)
        found = [seed[:1], torch.cat([seed[1:2], torch.zeros_like(seed[:1])])]
    else:
        with on_host():
            found = [torch.zeros(1, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)]
    with on_host():
        return [*found, torch.ones((), dtype=torch.int32)] if site.results == 3 else found


@rule("StatelessRandomGetAlg", "StatelessRandomGetKey")
def make_algorithm(site: Site) -> Tensor:
    with on_host():
        return torch.ones((), dtype=torch.int32)


@rule("IpuSeed", folds=False)
def draw(site: Site) -> Tensor:
    return draw_seed()


@rule("IpuDropoutWithSeed", folds=False)
def dropout_with_seed(site: Site) -> Tensor:
    """Elements are dropped, or kept and multiplied by the scale: the same ones for the same seed."""
    x, rate = site.input(0), float(site.get("rate"))
    noise = [int(size) for size in site.get("noise_shape") or x.shape]
    kept = make_bits(site.input(1), noise) >= min(round(rate * LIMIT), LIMIT - 1)
    return torch.where(kept, x * float(site.get("scale")), torch.zeros((), dtype=x.dtype))
