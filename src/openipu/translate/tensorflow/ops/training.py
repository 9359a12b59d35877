"""TensorFlow 1's updates. Variables are values here: each rule returns new ones, in the order of its variables."""

from __future__ import annotations

import torch

from openipu.translate.rules import rule
from openipu.translate.site import Site

Tensor = torch.Tensor


def _inputs(site: Site) -> list[Tensor]:
    return [site.input(place) for place in range(site.count)]


@rule("ResourceApplyGradientDescent")
def descend(site: Site) -> list[Tensor]:
    variable, rate, gradient = _inputs(site)
    return [variable - rate * gradient]


@rule("ResourceApplyMomentum")
def apply_momentum(site: Site) -> list[Tensor]:
    variable, held, rate, gradient, momentum = _inputs(site)
    held = held * momentum + gradient
    if site.get("use_nesterov", False):
        return [variable - (gradient * rate + held * momentum * rate), held]
    return [variable - held * rate, held]


@rule("ResourceApplyKerasMomentum")
def apply_keras_momentum(site: Site) -> list[Tensor]:
    variable, held, rate, gradient, momentum = _inputs(site)
    held = held * momentum - gradient * rate
    if site.get("use_nesterov", False):
        return [variable + (held * momentum - gradient * rate), held]
    return [variable + held, held]


@rule("ResourceApplyAdam")
def apply_adam(site: Site) -> list[Tensor]:
    variable, first, second, power_1, power_2, rate, beta_1, beta_2, epsilon, gradient = _inputs(site)
    step = rate * torch.sqrt(1 - power_2) / (1 - power_1)
    first = first + (gradient - first) * (1 - beta_1)
    second = second + (torch.square(gradient) - second) * (1 - beta_2)
    ahead = first * beta_1 + gradient * (1 - beta_1) if site.get("use_nesterov", False) else first
    return [variable - ahead * step / (torch.sqrt(second) + epsilon), first, second]


@rule("ResourceApplyAdaMax")
def apply_adamax(site: Site) -> list[Tensor]:
    variable, first, largest, power_1, rate, beta_1, beta_2, epsilon, gradient = _inputs(site)
    first = first + (gradient - first) * (1 - beta_1)
    largest = torch.maximum(largest * beta_2, gradient.abs())
    return [variable - rate / (1 - power_1) * (first / (largest + epsilon)), first, largest]


@rule("ResourceApplyAdagrad")
def apply_adagrad(site: Site) -> list[Tensor]:
    variable, total, rate, gradient = _inputs(site)
    total = total + torch.square(gradient) if site.get("update_slots", True) else total
    return [variable - gradient * rate * torch.rsqrt(total), total]


@rule("ResourceApplyAdagradV2")
def apply_adagrad_with_epsilon(site: Site) -> list[Tensor]:
    variable, total, rate, epsilon, gradient = _inputs(site)
    total = total + torch.square(gradient) if site.get("update_slots", True) else total
    return [variable - gradient * rate / (torch.sqrt(total) + epsilon), total]


@rule("ResourceApplyAdadelta")
def apply_adadelta(site: Site) -> list[Tensor]:
    variable, total, changes, rate, rho, epsilon, gradient = _inputs(site)
    total = total * rho + torch.square(gradient) * (1 - rho)
    change = torch.sqrt(changes + epsilon) * torch.rsqrt(total + epsilon) * gradient
    return [variable - change * rate, total, changes * rho + torch.square(change) * (1 - rho)]


@rule("ResourceApplyRMSProp")
def apply_rmsprop(site: Site) -> list[Tensor]:
    variable, square, held, rate, rho, momentum, epsilon, gradient = _inputs(site)
    square = square + (torch.square(gradient) - square) * (1 - rho)
    held = held * momentum + gradient * rate * torch.rsqrt(square + epsilon)
    return [variable - held, square, held]


@rule("ResourceApplyCenteredRMSProp")
def apply_centered_rmsprop(site: Site) -> list[Tensor]:
    variable, mean, square, held, rate, rho, momentum, epsilon, gradient = _inputs(site)
    square = square + (torch.square(gradient) - square) * (1 - rho)
    mean = mean + (gradient - mean) * (1 - rho)
    held = held * momentum + gradient * rate * torch.rsqrt(square - torch.square(mean) + epsilon)
    return [variable - held, mean, square, held]


@rule("ResourceApplyProximalGradientDescent")
def apply_proximal(site: Site) -> list[Tensor]:
    variable, rate, first, second, gradient = _inputs(site)
    moved = variable - gradient * rate
    shrunk = torch.sign(moved) * torch.relu(moved.abs() - rate * first)
    return [shrunk / (1 + second * rate)]


@rule("ResourceApplyFtrl", "ResourceApplyFtrlV2")
def apply_ftrl(site: Site) -> list[Tensor]:
    values = _inputs(site)
    variable, total, linear, gradient, rate, first, second = values[:7]
    power = values[-1]
    if site.node.op.endswith("V2"):
        gradient = gradient + 2 * values[7] * variable
    grown = total + torch.square(gradient)
    linear = linear + gradient - (grown.pow(-power) - total.pow(-power)) / rate * variable
    square = grown.pow(-power) / rate + 2 * second
    clipped = torch.sign(linear) * first - linear
    return [torch.where(linear.abs() > first, clipped / square, torch.zeros_like(variable)), grown, linear]


@rule("ResourceSparseApplyAdagrad", "ResourceSparseApplyMomentum", "ResourceSparseApplyKerasMomentum")
def apply_rows(site: Site) -> list[Tensor]:
    """Of the rows that a gradient is for; each of them once."""
    values = _inputs(site)
    variable, held, rate, gradient, rows = values[:5]
    rows = rows.to(torch.int64)
    own = held.index_select(0, rows)
    if site.node.op.endswith("Adagrad"):
        own = own + torch.square(gradient)
        change = gradient * rate * torch.rsqrt(own)
    elif site.node.op.endswith("KerasMomentum"):
        own = own * values[5] - gradient * rate
        change = -(own * values[5] - gradient * rate if site.get("use_nesterov", False) else own)
    else:
        own = own * values[5] + gradient
        change = (gradient + own * values[5]) * rate if site.get("use_nesterov", False) else own * rate
    return [variable.index_add(0, rows, -change), held.index_copy(0, rows, own)]
