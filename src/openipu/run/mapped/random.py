"""Random numbers of library calls, as functions of a seed.

In: a seed tensor of two 32-bit words or nothing, a modifier, how often the call ran. Out: tensors. The same seed and
modifier give the same numbers; without a seed, each execution of a call goes on where the last one ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

_MIX = 0x9E3779B97F4A7C15
_MASK = (1 << 63) - 1


def make_generator(seed: torch.Tensor | None, modifier: int, place: int, execution: int) -> torch.Generator:
    """A generator for one execution of one call."""
    if seed is None:
        state = place * _MIX + execution
    else:
        words = [int(word) & 0xFFFFFFFF for word in seed.reshape(-1).tolist()]
        state = (words[0] << 32 | words[-1]) ^ (modifier * _MIX)
    generator = torch.Generator()
    generator.manual_seed(state & _MASK)
    return generator


def _uniform(generator: torch.Generator, shape: list[int], dtype: torch.dtype, low: float, high: float) -> torch.Tensor:
    if not dtype.is_floating_point:
        return torch.randint(int(low), int(high) + 1, shape, generator=generator, dtype=torch.int64).to(dtype)
    return (torch.rand(shape, generator=generator) * (high - low) + low).to(dtype)


def _log_uniform(
    generator: torch.Generator, shape: list[int], dtype: torch.dtype, low: float, high: float, base: float
) -> torch.Tensor:
    edges = torch.log(torch.tensor([low, high], dtype=torch.float64)).tolist()
    drawn = torch.exp(torch.rand(shape, generator=generator, dtype=torch.float64) * (edges[1] - edges[0]) + edges[0])
    return drawn.to(dtype)


def _normal(
    generator: torch.Generator, shape: list[int], dtype: torch.dtype, mean: float, deviation: float
) -> torch.Tensor:
    return (torch.randn(shape, generator=generator) * deviation + mean).to(dtype)


def _truncated(
    generator: torch.Generator, shape: list[int], dtype: torch.dtype, mean: float, deviation: float, limit: float
) -> torch.Tensor:
    made = torch.empty(shape, dtype=torch.float32)
    torch.nn.init.trunc_normal_(made, 0.0, 1.0, -limit, limit, generator=generator)
    return (made * deviation + mean).to(dtype)


def _bernoulli(generator: torch.Generator, shape: list[int], dtype: torch.dtype, probability: float) -> torch.Tensor:
    return (torch.rand(shape, generator=generator) < probability).to(dtype)


def _dropout(
    generator: torch.Generator,
    shape: list[int],
    dtype: torch.dtype,
    probability: float,
    scale: float,
    given: torch.Tensor,
) -> torch.Tensor:
    """Keeps an element with `probability`; `shape` is that of the mask, which is broadcast."""
    kept = (torch.rand(shape, generator=generator) < probability).to(given.dtype)
    return given * kept * scale


KERNELS: Mapping[str, Callable[..., Any]] = {
    "uniform": _uniform,
    "logUniform": _log_uniform,
    "normal": _normal,
    "truncatedNormal": _truncated,
    "bernoulli": _bernoulli,
    "dropout": _dropout,
}
