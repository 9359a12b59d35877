"""Updates of weights that are written as ops of a graph."""

from __future__ import annotations

from collections.abc import Callable

import torch

from openipu.translate.rules import rule
from openipu.translate.site import Site

_DOMAIN = "ai.onnx.preview.training"
Update = Callable[..., tuple[torch.Tensor, ...]]


def _update_each(site: Site, states: int, update: Update) -> list[torch.Tensor]:
    """Inputs are rate, count, then all weights, all gradients, and all of each state; so are the results."""
    kinds = 2 + states
    count, rest = divmod(site.count - 2, kinds)
    if rest or count < 1:
        site.fail(f"needs rate, count and {kinds} tensors for each weight, and has {site.count} inputs")
    groups = [[site.input(2 + kind * count + place) for kind in range(kinds)] for place in range(count)]
    results = [update(*group) for group in groups]
    return [result[kind] for kind in range(kinds - 1) for result in results]


@rule("Momentum", domain=_DOMAIN)
def momentum(site: Site) -> list[torch.Tensor]:
    rate, count = site.input(0), site.input(1)
    alpha, decay = float(site.get("alpha")), float(site.get("norm_coefficient"))
    beta = torch.where(count > 0, float(site.get("beta")), 1.0).to(rate.dtype)
    nesterov = site.get("mode") == "nesterov"

    def update(x: torch.Tensor, gradient: torch.Tensor, speed: torch.Tensor) -> tuple[torch.Tensor, ...]:
        slope = decay * x + gradient
        speed = alpha * speed + beta * slope
        return x - rate * (slope + alpha * speed if nesterov else speed), speed

    return _update_each(site, 1, update)


@rule("Adagrad", domain=_DOMAIN)
def adagrad(site: Site) -> list[torch.Tensor]:
    rate = site.input(0) / (1 + site.input(1) * site.number("decay_factor", 0.0))
    decay, epsilon = site.number("norm_coefficient", 0.0), site.number("epsilon", 1e-6)

    def update(x: torch.Tensor, gradient: torch.Tensor, squares: torch.Tensor) -> tuple[torch.Tensor, ...]:
        slope = decay * x + gradient
        squares = squares + slope * slope
        return x - rate * slope / (torch.sqrt(squares) + epsilon), squares

    return _update_each(site, 1, update)


@rule("Adam", domain=_DOMAIN)
def adam(site: Site) -> list[torch.Tensor]:
    rate, count = site.input(0), site.input(1).to(torch.float32)
    alpha, beta = site.number("alpha", 0.9), site.number("beta", 0.999)
    decay, late = site.number("norm_coefficient", 0.0), site.number("norm_coefficient_post", 0.0)
    epsilon = site.number("epsilon", 1e-6)
    later = torch.clamp(count, min=1.0)  # the first update takes the rate as it is
    corrected = rate * torch.sqrt(1 - beta**later) / (1 - alpha**later)
    rate = torch.where(count > 0, corrected, rate)

    def update(
        x: torch.Tensor, gradient: torch.Tensor, mean: torch.Tensor, squares: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        slope = decay * x + gradient
        mean = alpha * mean + (1 - alpha) * slope
        squares = beta * squares + (1 - beta) * slope * slope
        return (1 - late) * (x - rate * mean / (torch.sqrt(squares) + epsilon)), mean, squares

    return _update_each(site, 2, update)
